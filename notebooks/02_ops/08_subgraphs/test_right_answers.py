"""Right answers that are built in other ways than the lesson's solutions."""

import tensorflow as tf
from right_answers import passing


def norm_as_the_formula(a, mean, inverse, scale, d_out):
    h = (a - mean) * inverse
    product = d_out * h
    d_a = scale * inverse * (d_out - tf.reduce_mean(d_out, 0) - h * tf.reduce_mean(product, 0))
    return d_a, tf.reduce_sum(product, 0), tf.reduce_sum(d_out, 0)


def norm_by_einsum(a, mean, inverse, scale, d_out):
    h = (a - mean) * inverse
    rows = tf.cast(tf.shape(a)[0], tf.float32)
    d_scale, d_shift = tf.einsum("bn,bn->n", d_out, h), tf.einsum("bn->n", d_out)
    return (scale * inverse) * ((d_out - d_shift / rows) - h * (d_scale / rows)), d_scale, d_shift


def norm_by_sums(a, mean, inverse, scale, d_out):
    rows = float(a.shape[0])
    d_shift = tf.math.reduce_sum(d_out, axis=0)
    centred = tf.subtract(a, mean)
    d_scale = tf.reduce_sum(tf.multiply(d_out, centred), axis=0) * inverse
    inner = d_out - (d_shift / rows + centred * (inverse * d_scale / rows))
    return inner * (scale * inverse), d_scale, d_shift


ANSWERS = {
    1: [norm_as_the_formula, norm_by_einsum, norm_by_sums],
}
test_another_right_answer_passes = passing("02_ops/08_subgraphs", ANSWERS)
