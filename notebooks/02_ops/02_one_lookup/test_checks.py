"""The checks of the lookup lesson against right answers and every kind of wrong one."""

import tensorflow as tf
from ctrlab.lessons.topics.one_lookup import checks
from solved import solved
from wrong_answers import judge

from ctrlab.ops import lookup

LESSON = "02_ops/02_one_lookup"
merge = solved(LESSON, 1)


def unsorted(ids, rows):
    unique, place = tf.unique(ids)
    return unique, tf.math.unsorted_segment_sum(rows, place, tf.size(unique))


def no_op(ids, rows):
    return ids, rows


def sorted_only(ids, rows):
    order = tf.argsort(ids)
    return tf.gather(ids, order), tf.gather(rows, order)


def mean(ids, rows):
    order = tf.argsort(ids)
    unique, place = tf.unique(tf.gather(ids, order))
    return unique, tf.math.segment_mean(tf.gather(rows, order), place)


def zeros(ids, rows):
    unique, sums = merge(ids, rows)
    return unique, tf.zeros_like(sums)


def low_precision(ids, rows):
    unique, sums = merge(ids, tf.cast(rows, tf.bfloat16))
    return unique, tf.cast(sums, tf.float32)


def swapped_results(ids, rows):
    return merge(ids, rows)[::-1]


def in_32_bits(ids, rows):
    unique, sums = merge(tf.cast(ids, tf.int32), rows)
    return tf.cast(unique, tf.int64), sums


def sorted_as_floats(ids, rows):
    order = tf.argsort(tf.cast(ids, tf.float32), stable=True)
    unique, place = tf.unique(tf.gather(ids, order))
    return unique, tf.math.segment_sum(tf.gather(rows, order), place)


def rows_alone(ids, rows):
    return merge(ids, rows)[1]


def dense(ids, rows):
    table = tf.math.unsorted_segment_sum(rows, ids, checks.ROWS)  # [V, D]
    unique = tf.sort(tf.unique(ids)[0])
    return unique, tf.gather(table, unique)


def one_hot(ids, rows):
    unique = tf.sort(tf.unique(ids)[0])
    return unique, tf.matmul(tf.cast(unique[:, None] == ids[None, :], tf.float32), rows)


WRONG = [in_32_bits, sorted_as_floats, no_op, sorted_only, unsorted, mean, zeros, low_precision, swapped_results, rows_alone]
TOO_LARGE = dict.fromkeys((dense, one_hot), "Budget")
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (merge, dict.fromkeys(WRONG) | TOO_LARGE)})


def wrong_ops():
    def nothing(*args):
        return [tf.zeros_like(out) for out in lookup.fused(*args)]

    def constant(*args):
        return [tf.ones_like(out) for out in lookup.fused(*args)]

    def no_offset(*args):
        return [tf.roll(out, 1, 1) for out in lookup.fused(*args)]

    def no_mean(tables, columns, layout):
        sums = tuple("sum" if combiner == "mean" else combiner for combiner in layout.combiners)
        return lookup.fused(tables, columns, lookup.Layout(layout.table_of, sums, layout.output_of))

    def half(*args):
        return [tf.cast(tf.cast(out, tf.bfloat16), tf.float32) for out in lookup.fused(*args)]

    def rows_in_another_order(*args):
        return [tf.roll(out, 1, 0) for out in lookup.fused(*args)]

    return [nothing, constant, no_offset, no_mean, half, rows_in_another_order]


_, test_wrong_kernels_are_refused = judge(LESSON, {2: ((), wrong_ops())}, kernels=True)
