"""Right answers that are built in other ways than the lesson's solutions."""

import tensorflow as tf
from right_answers import passing


def bf16_with_bias_in_float32(x, kernel, bias):
    product = tf.matmul(tf.cast(x, tf.bfloat16), tf.cast(kernel, tf.bfloat16))
    return tf.nn.relu(tf.cast(product, tf.float32) + bias)


def bf16_by_einsum(x, kernel, bias):
    x, kernel, bias = (tf.cast(t, tf.bfloat16) for t in (x, kernel, bias))
    return tf.cast(tf.maximum(tf.einsum("bi,ij->bj", x, kernel) + bias, 0), tf.float32)


@tf.function
def bf16_as_a_function(x, kernel, bias):
    half = tf.tensordot(tf.cast(x, "bfloat16"), tf.cast(kernel, "bfloat16"), 1) + tf.cast(bias, "bfloat16")
    return tf.cast(tf.nn.relu(half), "float32")


def clipped_by_hand(weight, gradient, rate, clip):
    gradient = tf.cast(gradient, tf.float32)
    norm = tf.norm(gradient)
    return weight - rate * tf.where(norm > clip, gradient * (clip / norm), gradient)


def clipped_by_the_smaller(weight, gradient, rate, clip):
    gradient = tf.cast(gradient, weight.dtype)
    scale = tf.minimum(1.0, tf.math.divide_no_nan(clip, tf.sqrt(tf.reduce_sum(tf.square(gradient)))))
    return weight - rate * tf.where(tf.reduce_any(gradient != 0), scale, 1.0) * gradient


def clipped_by_global_norm(weight, gradient, rate, clip):
    (gradient,), _ = tf.clip_by_global_norm([tf.cast(gradient, tf.float32)], clip)
    return weight - rate * gradient


ANSWERS = {
    1: [bf16_with_bias_in_float32, bf16_by_einsum, bf16_as_a_function],
    2: [clipped_by_hand, clipped_by_the_smaller, clipped_by_global_norm],
}
test_another_right_answer_passes = passing("02_ops/10_mixed_precision", ANSWERS)
