"""The checks of the indicator lesson against right answers and every kind of wrong one."""

import pytest
import tensorflow as tf
from solved import solved
from wrong_answers import ByHeart, Replay, named

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
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


@pytest.mark.parametrize("seed", range(3))
def test_scatter_passes(seed):
    check.run(LESSON, 1, scatter, seed)


WRONG = [
    no_op,
    zeros,
    off_by_one,
    low_precision,
    presence,
    unknown_is_last,
    forgets_unknown,
    loop,
    flat_one_hot,
    one_hot,
    one_hot_in_a_data_set,
    Replay(scatter),
    ByHeart(LESSON, 1, scatter),
]


@pytest.mark.parametrize("answer", WRONG, ids=named)
def test_wrong_answers_fail(answer):
    with pytest.raises(CheckFailed):
        check.run(LESSON, 1, answer)


@pytest.mark.parametrize("answer", [one_hot, one_hot_in_a_data_set], ids=named)
def test_the_one_hot_form_fails_by_its_budget_alone(answer):
    with pytest.raises(CheckFailed, match="Budget"):
        check.run(LESSON, 1, answer)


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


@pytest.mark.parametrize("answer", wrong_ops(), ids=named)
def test_wrong_kernels_fail(swapped, answer):
    with pytest.raises(CheckFailed):
        check.run(LESSON, 2, answer)
