"""The checks of the parsing lesson against right answers and every kind of wrong one."""

import tensorflow as tf
from solved import solved
from wrong_answers import judge

from ctrlab.ops.parsing import numbers

LESSON = "02_ops/06_sequence_parsing"
together = solved(LESSON, 1)


def one_by_one(columns, separator, buckets):
    return tf.concat([together([column], separator, buckets) for column in columns], axis=0)


def no_op(columns, separator, buckets):
    return columns


def nothing(columns, separator, buckets):
    return tf.RaggedTensor.from_row_lengths(
        tf.zeros([0], tf.int64), tf.zeros_like(together(columns, separator, buckets).row_lengths())
    )


def off_by_one(columns, separator, buckets):
    return (together(columns, separator, buckets) + 1) % buckets


def keeps_empty_parts(columns, separator, buckets):
    parts = tf.strings.split(tf.concat(columns, axis=0), separator)
    return parts.with_flat_values(tf.strings.to_hash_bucket_fast(parts.flat_values, buckets))


def drops_empty_rows(columns, separator, buckets):
    ids = together(columns, separator, buckets)
    return tf.ragged.boolean_mask(ids, ids.row_lengths() > 0)


def other_order(columns, separator, buckets):
    return together(columns[::-1], separator, buckets)


def rows_side_by_side(columns, separator, buckets):
    return together([tf.reshape(tf.stack(columns, axis=1), [-1])], separator, buckets)


def of_32_bits(columns, separator, buckets):
    return tf.cast(together(columns, separator, buckets), tf.int32)


def another_separator(columns, separator, buckets):
    return together(columns, ";", buckets)


def another_hash(columns, separator, buckets):
    ids = together(columns, separator, buckets)
    return ids.with_flat_values(ids.flat_values * 7 % buckets)


def dense(columns, separator, buckets):
    return together(columns, separator, buckets).to_tensor()


def loop(columns, separator, buckets):
    text = tf.concat(columns, axis=0)
    spec = tf.RaggedTensorSpec([None], tf.int64, ragged_rank=0)
    return tf.map_fn(lambda row: together([row[None]], separator, buckets)[0], text, fn_output_signature=spec)


WRONG = [no_op, nothing, off_by_one, keeps_empty_parts, drops_empty_rows, other_order, rows_side_by_side, of_32_bits]
WRONG += [another_separator, another_hash, dense, loop]
test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON, {1: (together, dict.fromkeys(WRONG) | {one_by_one: "Budget"})}
)


def wrong_ops():
    def zeros(columns, values):
        return tf.zeros_like(numbers.fused(columns, values))

    def constant(columns, values):
        return tf.ones_like(numbers.fused(columns, values))

    def sums(columns, values):
        return numbers.fused(columns, values) * 2

    def half(columns, values):
        return tf.cast(tf.cast(numbers.fused(columns, values), tf.bfloat16), tf.float32)

    def other_columns(columns, values):
        return numbers.fused(columns[::-1], values[::-1])

    def blames_nobody(columns, values):
        try:
            return numbers.fused(columns, values)
        except tf.errors.InvalidArgumentError:
            return tf.zeros([4, 1])

    def blames_the_last(columns, values):
        try:
            return numbers.fused(columns, values)
        except tf.errors.InvalidArgumentError:
            raise tf.errors.InvalidArgumentError(None, None, "must be numbers; received 'y' in row 3.") from None

    def not_ours(columns, values):
        return numbers.baseline(columns, values)

    return [zeros, constant, sums, half, other_columns, blames_nobody, blames_the_last, not_ours]


_, test_wrong_kernels_are_refused = judge(LESSON, {2: ((), wrong_ops())}, kernels=True)
