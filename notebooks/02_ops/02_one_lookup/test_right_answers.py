"""Right answers that are built in other ways than the lesson's solutions."""

import tensorflow as tf
from right_answers import passing


def merge_sorted(ids, rows):
    order = tf.argsort(ids, stable=True)
    ids = tf.gather(ids, order)
    new = tf.concat([tf.ones_like(ids[:1], tf.bool), ids[1:] != ids[:-1]], 0)
    place = tf.cumsum(tf.cast(new, tf.int32)) - 1
    return tf.boolean_mask(ids, new), tf.math.segment_sum(tf.gather(rows, order), place)


def merge_then_sort(ids, rows):
    unique, place = tf.unique(ids)
    order = tf.argsort(unique)
    sums = tf.math.unsorted_segment_sum(rows, place, tf.size(unique))
    return tf.gather(unique, order), tf.gather(sums, order)


def merge_by_search(ids, rows):
    unique = tf.unique(tf.sort(ids)).y
    place = tf.searchsorted(unique, ids)
    return unique, tf.scatter_nd(place[:, None], rows, tf.stack([tf.size(unique), rows.shape[1]]))


def merge_by_rank(ids, rows):
    unique, place = tf.unique(ids)
    order = tf.argsort(unique)
    rank = tf.math.invert_permutation(order)
    return tf.gather(unique, order), tf.math.unsorted_segment_sum(rows, tf.gather(rank, place), tf.size(unique))


ANSWERS = {
    1: [merge_sorted, merge_then_sort, merge_by_search, merge_by_rank],
}
test_another_right_answer_passes = passing("02_ops/02_one_lookup", ANSWERS)
