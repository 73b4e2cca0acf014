"""The checks of the lesson on experts against right answers and every kind of wrong one."""

import tensorflow as tf
from solved import solved
from wrong_answers import judge

from ctrlab.ops import mixture

LESSON = "02_ops/09_experts"
one_product = solved(LESSON, 1)


def no_op(x, kernel, gates):
    return x, x


def one_tensor(x, kernel, gates):
    return one_product(x, kernel, gates)[0]


def zeros(x, kernel, gates):
    return tuple(tf.zeros_like(part) for part in one_product(x, kernel, gates))


def without_transposing(x, kernel, gates):
    count, inputs, outputs = kernel.shape
    y = tf.matmul(x, tf.concat([tf.reshape(kernel, (inputs, count * outputs)), *gates], axis=1))
    return tf.transpose(tf.reshape(y[:, : count * outputs], (-1, count, outputs)), (1, 0, 2)), y[:, count * outputs :]


def row_first(x, kernel, gates):
    said, logits = one_product(x, kernel, gates)
    return tf.transpose(said, (1, 0, 2)), logits


def gates_turned(x, kernel, gates):
    return one_product(x, kernel, gates[::-1])


def low_precision(x, kernel, gates):
    return tuple(tf.cast(tf.cast(part, tf.bfloat16), tf.float32) for part in one_product(x, kernel, gates))


def batched(x, kernel, gates):
    return tf.matmul(x[None], kernel), tf.matmul(x, tf.concat(gates, axis=1))


def two_products(x, kernel, gates):
    count, inputs, outputs = kernel.shape
    y = tf.matmul(x, tf.reshape(tf.transpose(kernel, (1, 0, 2)), (inputs, count * outputs)))
    return tf.transpose(tf.reshape(y, (-1, count, outputs)), (1, 0, 2)), tf.matmul(x, tf.concat(gates, axis=1))


WRONG = [no_op, one_tensor, zeros, without_transposing, row_first, low_precision, gates_turned]
TOO_MUCH = dict.fromkeys((batched, two_products), "Budget")
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (one_product, dict.fromkeys(WRONG) | TOO_MUCH)})


def without_softmax(x, said, kernels, biases):
    gates = [tf.matmul(x, k) + b for k, b in zip(kernels, biases)]
    return [tf.einsum("be,ebh->bh", gate, said) for gate in gates]


def overflows(x, said, kernels, biases):
    weights = [tf.exp(tf.matmul(x, k) + b) for k, b in zip(kernels, biases)]
    return [tf.einsum("be,ebh->bh", w / tf.reduce_sum(w, 1, keepdims=True), said) for w in weights]


WRONG_MIXTURES = {
    "nothing": lambda *inputs: [tf.zeros_like(mixed) for mixed in mixture.baseline(*inputs)],
    "the mean": lambda x, said, kernels, biases: [tf.reduce_mean(said, 0)] * len(kernels),
    "no bias": lambda x, said, kernels, biases: mixture.baseline(x, said, kernels, [0 * b for b in biases]),
    "no softmax": without_softmax,
    "overflow": overflows,
    "the first task's gate for all": lambda x, said, kernels, biases: mixture.baseline(
        x, said, kernels[:1] * len(kernels), biases[:1] * len(kernels)
    ),
    "half precision": lambda *inputs: [tf.cast(tf.cast(m, tf.bfloat16), tf.float32) for m in mixture.baseline(*inputs)],
}


test_the_stock_mixture_passes, test_wrong_kernels_are_refused = judge(
    LESSON, {2: (mixture.baseline, WRONG_MIXTURES)}, kernels=True
)
