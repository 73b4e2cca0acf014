"""The checks of the lesson on sub-graphs against right answers and every kind of wrong one."""

import tensorflow as tf
from solved import solved
from wrong_answers import judge

from ctrlab.ops import batch_norm

LESSON = "02_ops/08_subgraphs"
by_hand = solved(LESSON, 1)


def by_tape(a, mean, inverse, scale, d_out):
    with tf.GradientTape() as tape:
        shift = tf.zeros_like(scale)
        tape.watch([a, scale, shift])
        mean, variance = tf.nn.moments(a, [0])
        out = tf.nn.batch_normalization(a, mean, variance, shift, scale, batch_norm.EPSILON)
    return tuple(tape.gradient(out, [a, scale, shift], output_gradients=d_out))


def wasteful(a, mean, inverse, scale, d_out):
    h, rows = (a - mean) * inverse, tf.cast(tf.shape(a)[0], a.dtype)
    spread = h * (tf.reduce_sum(d_out * h, 0) / rows) + tf.reduce_sum(d_out, 0) / rows + tf.zeros_like(a) + tf.zeros_like(a)
    return scale * inverse * (d_out - spread), tf.reduce_sum(d_out * h, 0), tf.reduce_sum(d_out, 0)


def changed(**change):
    """by_hand with some of its three results replaced."""

    def answer(*inputs):
        results = dict(zip(("d_a", "d_scale", "d_shift"), by_hand(*inputs)))
        return tuple((results | {name: make(results, inputs) for name, make in change.items()}).values())

    return answer


WRONG = {
    "nothing": lambda a, mean, inverse, scale, d_out: d_out,
    "zeros": lambda *inputs: tuple(tf.zeros_like(x) for x in by_hand(*inputs)),
    "statistics taken as constants": changed(d_a=lambda r, i: i[3] * i[2] * i[4]),
    "no term of the variance": changed(d_a=lambda r, i: i[3] * i[2] * (i[4] - tf.reduce_mean(i[4], 0))),
    "sums instead of means": changed(d_a=lambda r, i: i[3] * i[2] * (i[4] - r["d_shift"] - (i[0] - i[1]) * i[2] * r["d_scale"])),
    "swapped": changed(d_scale=lambda r, i: r["d_shift"], d_shift=lambda r, i: r["d_scale"]),
    "half precision": changed(d_a=lambda r, i: tf.cast(tf.cast(r["d_a"], tf.bfloat16), tf.float32)),
    "another dtype": changed(d_a=lambda r, i: tf.cast(r["d_a"], tf.float64)),
    "off by one row": changed(d_a=lambda r, i: tf.roll(r["d_a"], 1, 0)),
    "by the tape": (by_tape, "Budget"),
    "wasteful": (wasteful, "Budget"),
}


test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (by_hand, WRONG)})
WRONG_KERNELS = {
    "zeros": lambda *inputs: tuple(tf.zeros_like(x) for x in batch_norm.baseline(*inputs)),
    "no ReLU": lambda product, *rest: batch_norm.baseline(product + 1e3, *rest),
    "no bias": lambda product, bias, *rest: batch_norm.baseline(product, tf.zeros_like(bias), *rest),
    "moved by nothing": lambda *inputs: (batch_norm.baseline(*inputs)[0], *inputs[4:]),
    "another epsilon": lambda *inputs: batch_norm.baseline(*inputs, epsilon=1e-2),
    "another momentum": lambda *inputs: batch_norm.baseline(*inputs, momentum=0.9),
    "adds to what was there": lambda *inputs: (batch_norm.baseline(*inputs)[0] + 1e-2, *batch_norm.baseline(*inputs)[1:]),
}


_, test_wrong_kernels_are_refused = judge(LESSON, {2: ((), WRONG_KERNELS)}, kernels=True)
