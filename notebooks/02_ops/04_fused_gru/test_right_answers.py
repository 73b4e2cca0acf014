"""Right answers that are built in other ways than the lesson's solutions."""

import tensorflow as tf
from right_answers import passing


def blocks_by_sort_of_negatives(lengths, size):
    order = tf.argsort(-lengths, stable=True)
    return order, size * tf.reduce_sum(tf.gather(lengths, order)[::size])


def blocks_by_top_k(lengths, size):
    sorted_lengths, order = tf.math.top_k(lengths, tf.size(lengths))
    return order, tf.reduce_sum(tf.gather(sorted_lengths, tf.range(0, tf.size(lengths), size))) * size


def blocks_by_padding(lengths, size):
    order = tf.argsort(lengths, direction="DESCENDING")
    rest = -tf.size(lengths) % size
    of_blocks = tf.reshape(tf.pad(tf.gather(lengths, order), [[0, rest]]), [-1, size])
    return tf.cast(order, tf.int64), tf.reduce_sum(tf.reduce_max(of_blocks, 1)) * size


ANSWERS = {
    1: [blocks_by_sort_of_negatives, blocks_by_top_k, blocks_by_padding],
}
test_another_right_answer_passes = passing("02_ops/04_fused_gru", ANSWERS)
