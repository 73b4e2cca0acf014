"""Right answers that are built in other ways than the lesson's solutions."""

import tensorflow as tf
from right_answers import passing


def cell_by_split(x, h, a, W, b, V, d):
    r, u = tf.split(tf.sigmoid(tf.matmul(tf.concat([x, h], 1), W) + b), 2, axis=1)
    u = (1.0 - a)[:, tf.newaxis] * u
    c = tf.tanh(tf.matmul(tf.concat([x, r * h], 1), V) + d)
    return u * h + (1.0 - u) * c


def cell_by_difference(x, h, a, W, b, V, d):
    units = h.shape[1]
    gates = tf.nn.sigmoid(tf.nn.bias_add(tf.concat([x, h], axis=-1) @ W, b))
    c = tf.nn.tanh(tf.nn.bias_add(tf.concat([x, gates[:, :units] * h], axis=-1) @ V, d))
    return c + gates[:, units:] * (1 - tf.expand_dims(a, 1)) * (h - c)


def cell_by_einsum(x, h, a, W, b, V, d):
    gates = tf.sigmoid(tf.einsum("bi,ij->bj", tf.concat([x, h], 1), W) + b)
    reset, update = gates[:, : h.shape[1]], gates[:, h.shape[1] :]
    candidate = tf.tanh(tf.einsum("bi,ij->bj", tf.concat([x, tf.multiply(reset, h)], 1), V) + d)
    update = tf.einsum("b,bh->bh", 1 - a, update)
    return h * update + candidate - candidate * update


def _state_before(outputs, splits, first):
    shifted = tf.concat([tf.zeros_like(outputs[:1]), outputs[:-1]], 0)
    return tf.where(first[:, None], tf.zeros_like(outputs), shifted)


def gradient_by_row_numbers(d_h, outputs, gates, splits):
    rows = tf.RaggedTensor.from_row_splits(outputs, splits).value_rowids()
    first = tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], 0)
    _, u, c = tf.split(gates, 3, axis=1)
    return -tf.reduce_sum(d_h * (_state_before(outputs, splits, first) - c) * u, 1)


def gradient_by_mask(d_h, outputs, gates, splits):
    units, count = outputs.shape[1], tf.shape(outputs, tf.int64)[0]
    starts = tf.boolean_mask(splits[:-1], splits[:-1] < count)
    hits = tf.math.unsorted_segment_sum(tf.ones_like(starts, tf.float32), starts, count)
    before = tf.pad(outputs, [[1, 0], [0, 0]])[:-1] * tf.cast(hits == 0, tf.float32)[:, None]
    return tf.reduce_sum(d_h * (gates[:, 2 * units :] - before) * gates[:, units : 2 * units], axis=-1)


def gradient_by_roll(d_h, outputs, gates, splits):
    units = outputs.shape[1]
    places = tf.range(tf.shape(outputs, tf.int64)[0])
    first = tf.gather(splits, tf.searchsorted(splits, places, side="right") - 1) == places
    u, c = gates[:, units : 2 * units], gates[:, 2 * units :]
    before = tf.roll(outputs, 1, axis=0) * (1 - tf.cast(first[:, None], tf.float32))
    return -tf.reduce_sum(d_h * u * (before - c), 1)


ANSWERS = {
    1: [cell_by_split, cell_by_difference, cell_by_einsum],
    2: [gradient_by_row_numbers, gradient_by_mask, gradient_by_roll],
}
test_another_right_answer_passes = passing("02_ops/05_fused_augru", ANSWERS)
