"""The checks of the indicator lesson against right answers and every kind of wrong one."""

import tensorflow as tf
from solved import solved
from wrong_answers import judge

from ctrlab.ops import indicator

LESSON = "02_ops/01_indicator_column"
scatter = solved(LESSON, 1)


def one_hot(ids, size):
    return tf.reduce_sum(tf.one_hot(ids.to_tensor(-1), size), 1)


def no_op(ids, size):
    return ids


def zeros(ids, size):
    return tf.zeros(tf.stack([ids.nrows(), size]))


def off_by_one(ids, size):
    return tf.roll(scatter(ids, size), 1, axis=1)


def low_precision(ids, size):
    return tf.cast(scatter(ids, size), tf.float16)


def presence(ids, size):
    return tf.minimum(scatter(ids, size), 1.0)


def unknown_is_last(ids, size):
    return scatter(ids.with_flat_values(ids.flat_values % size), size)


def forgets_unknown(ids, size):
    indices = tf.stack([ids.value_rowids(), ids.flat_values], 1)
    return tf.scatter_nd(indices, tf.ones_like(ids.flat_values, tf.float32), tf.stack([ids.nrows(), size]))


def loop(ids, size):
    return tf.map_fn(lambda row: tf.math.bincount(row, minlength=size, dtype=tf.float32), ids, fn_output_signature=tf.float32)


def flat_one_hot(ids, size):
    return tf.math.segment_sum(tf.one_hot(ids.flat_values, size), ids.value_rowids())


def one_hot_in_a_data_set(ids, size):
    rows = tf.data.Dataset.from_tensor_slices(ids).map(lambda row: tf.reduce_sum(tf.one_hot(row, size), 0))
    return rows.concatenate(tf.data.Dataset.from_tensors(tf.zeros(size))).batch(99).get_single_element()[:-1]


WRONG = [no_op, zeros, off_by_one, low_precision, presence, unknown_is_last, forgets_unknown, loop, flat_one_hot]
TOO_LARGE = dict.fromkeys((one_hot, one_hot_in_a_data_set), "Budget")
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (scatter, dict.fromkeys(WRONG) | TOO_LARGE)})


def wrong_ops():
    def nothing(columns, sizes, kernel, weights):
        return tf.zeros_like(indicator.baseline(columns, sizes, kernel, weights))

    def constant(columns, sizes, kernel, weights):
        return tf.ones_like(indicator.baseline(columns, sizes, kernel, weights))

    def no_offset(columns, sizes, kernel, weights):
        return indicator.baseline(columns, sizes, tf.roll(kernel, 1, 0), weights)

    def no_weights(columns, sizes, kernel, weights):
        return indicator.baseline(columns, sizes, kernel)

    def half(columns, sizes, kernel, weights):
        return tf.cast(tf.cast(indicator.baseline(columns, sizes, kernel, weights), tf.bfloat16), tf.float32)

    def adds_to_what_was_there(columns, sizes, kernel, weights):
        return indicator.baseline(columns, sizes, kernel, weights) + 1e-3

    return [nothing, constant, no_offset, no_weights, half, adds_to_what_was_there]


_, test_wrong_kernels_are_refused = judge(LESSON, {2: ((), wrong_ops())}, kernels=True)
