"""Right answers that are built in other ways than the lesson's solutions."""

import numpy as np
import tensorflow as tf
from right_answers import passing


def _pair_numbers(count):
    numbers = np.zeros((count, count), np.int32)
    numbers[np.tril_indices(count, -1)] = np.arange(count * (count - 1) // 2)
    return numbers + numbers.T


def pairs_by_set_diag(u, g):
    both = tf.gather(g, _pair_numbers(u.shape[1]), axis=1)
    return tf.linalg.set_diag(both, tf.zeros(tf.shape(u)[:2])) @ u


def pairs_by_mask(u, g):
    count = u.shape[1]
    both = tf.gather(g, _pair_numbers(count), axis=1) * (1 - tf.eye(count))
    return tf.einsum("bij,bjd->bid", both, u)


def pairs_by_flat_gather(u, g):
    count = u.shape[1]
    numbers = _pair_numbers(count) + 1
    np.fill_diagonal(numbers, 0)
    padded = tf.concat([tf.zeros_like(g[:, :1]), g], axis=1)
    both = tf.reshape(tf.gather(padded, numbers.reshape(-1), axis=1), [-1, count, count])
    return tf.linalg.matmul(both, u)


ANSWERS = {
    1: [pairs_by_set_diag, pairs_by_mask, pairs_by_flat_gather],
}
test_another_right_answer_passes = passing("02_ops/07_interactions", ANSWERS)
