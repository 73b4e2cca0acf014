"""The checks of the lesson on mixed precision against right answers and every kind of wrong one."""

import tensorflow as tf
from solved import solved
from wrong_answers import judge

LESSON = "02_ops/10_mixed_precision"
bf16_dense, update = solved(LESSON, 1), solved(LESSON, 2)


def layer_in(dtype):
    def answer(x, kernel, bias):
        x, kernel, bias = (tf.cast(t, dtype) for t in (x, kernel, bias))
        return tf.cast(tf.nn.relu(tf.nn.bias_add(tf.matmul(x, kernel), bias)), tf.float32)

    return answer


def bias_in_float32(x, kernel, bias):
    product = tf.matmul(tf.cast(x, tf.bfloat16), tf.cast(kernel, tf.bfloat16))
    return tf.nn.relu(tf.cast(product, tf.float32) + bias)


def float32(x, kernel, bias):
    return tf.nn.relu(tf.matmul(x, kernel) + bias)


def rounded_but_float32(x, kernel, bias):
    there = lambda t: tf.cast(tf.cast(t, tf.bfloat16), tf.float32)  # noqa: E731
    return tf.nn.relu(tf.matmul(there(x), there(kernel)) + bias)


WRONG_LAYERS = {
    "nothing": lambda x, kernel, bias: x,
    "zeros": lambda *inputs: tf.zeros_like(float32(*inputs)),
    "bfloat16 out": lambda x, kernel, bias: tf.cast(bf16_dense(x, kernel, bias), tf.bfloat16),
    "float16": layer_in(tf.float16),
    "float32": float32,
    "rounded but multiplied in float32": rounded_but_float32,
    "no bias": lambda x, kernel, bias: bf16_dense(x, kernel, 0 * bias),
    "no ReLU": lambda x, kernel, bias: bias_in_float32(x, kernel, bias + 1e9) - 1e9,
    "no gradient": lambda *inputs: tf.stop_gradient(bf16_dense(*inputs)),
    "off by one": lambda *inputs: tf.roll(bf16_dense(*inputs), 1, 1),
    "twice": lambda *inputs: bf16_dense(*inputs) / 2 + bf16_dense(*inputs) / 2,
}


def update_in_bfloat16(weight, gradient, rate, clip):
    return weight - tf.cast(tf.cast(rate, tf.bfloat16) * tf.clip_by_norm(gradient, tf.cast(clip, tf.bfloat16)), tf.float32)


def weight_in_bfloat16(weight, gradient, rate, clip):
    return tf.cast(tf.cast(update(weight, gradient, rate, clip), tf.bfloat16), tf.float32)


WRONG_UPDATES = {
    "nothing": lambda weight, gradient, rate, clip: weight,
    "not clipped": lambda weight, gradient, rate, clip: weight - rate * tf.cast(gradient, tf.float32),
    "clipped by value": lambda w, g, rate, clip: w - rate * tf.clip_by_value(tf.cast(g, tf.float32), -clip, clip),
    "always scaled": lambda w, g, rate, clip: w - rate * clip * tf.math.l2_normalize(tf.cast(g, tf.float32)),
    "upwards": lambda weight, gradient, rate, clip: 2 * weight - update(weight, gradient, rate, clip),
    "update in bfloat16": update_in_bfloat16,
    "weights in bfloat16": weight_in_bfloat16,
    "float64": lambda *inputs: tf.cast(update(*inputs), tf.float64),
    "casts twice": lambda w, g, rate, clip: update(w, g, rate, clip) + 0 * tf.cast(g, tf.float32),
}


test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON, {1: ((bf16_dense, bias_in_float32), WRONG_LAYERS), 2: (update, WRONG_UPDATES)}
)
