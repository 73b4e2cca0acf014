"""The checks of the lesson on interactions against right answers and every kind of wrong one."""

import time

import numpy as np
import pytest
import tensorflow as tf
from wrong_answers import ByHeart, Replay, named

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
from ctrlab.ops import factorization_machine

LESSON = "02_ops/07_interactions"


def table(count):
    row, column = np.tril_indices(count, -1)
    place = np.full((count, count), len(row))
    place[row, column] = place[column, row] = np.arange(len(row))
    return row, column, place


def gathered(u, g):
    place = table(u.shape[1])[2]
    return tf.matmul(tf.gather(tf.pad(g, [[0, 0], [0, 1]]), place, axis=1), u)


def no_op(u, g):
    return u


def constant(u, g):
    return tf.ones_like(u)


def half_of_it(u, g):
    place = np.tril(table(u.shape[1])[2], -1) + np.triu(np.full((u.shape[1],) * 2, g.shape[1]))
    return tf.matmul(tf.gather(tf.pad(g, [[0, 0], [0, 1]]), place, axis=1), u)


def upper_order(u, g):
    count = u.shape[1]
    row, column = np.triu_indices(count, 1)
    place = np.full((count, count), len(row))
    place[row, column] = place[column, row] = np.arange(len(row))
    return tf.matmul(tf.gather(tf.pad(g, [[0, 0], [0, 1]]), place, axis=1), u)


def low_precision(u, g):
    return tf.cast(tf.cast(gathered(u, g), tf.bfloat16), tf.float32)


def float64(u, g):
    return tf.cast(gathered(u, g), tf.float64)


def mutates(u, g):
    u = tf.Variable(u)
    u.assign_add(tf.ones_like(u))
    return gathered(u.value(), g)


def two_products(u, g):
    row, column, _ = table(u.shape[1])
    place = np.full((u.shape[1],) * 2, len(row))
    place[row, column] = np.arange(len(row))
    lower = tf.gather(tf.pad(g, [[0, 0], [0, 1]]), place, axis=1)
    return tf.matmul(lower, u) + tf.matmul(lower, u, transpose_a=True)


def by_the_tape(u, g):
    row, column, _ = table(u.shape[1])
    with tf.GradientTape() as tape:
        tape.watch(u)
        dots = tf.reshape(tf.matmul(u, u, transpose_b=True), [-1, u.shape[1] ** 2])
        pairs = tf.gather(dots, row * u.shape[1] + column, axis=1)
    return tape.gradient(pairs, u, output_gradients=g)


def pair_by_pair(u, g):
    row, column, _ = table(u.shape[1])
    outer = [g[:, p, None] * tf.gather(u, [j, i], axis=1)[:, 0] for p, (i, j) in enumerate(zip(row, column))]
    back = [g[:, p, None] * u[:, i] for p, i in enumerate(row)]
    rows = [
        tf.add_n([outer[p] for p, i in enumerate(row) if i == k] + [back[p] for p, j in enumerate(column) if j == k])
        for k in range(u.shape[1])
    ]
    return tf.einsum("ubd->bud", tf.stack(rows))


@pytest.mark.parametrize("seed", range(3))
def test_one_gather_and_one_product_pass(seed):
    check.run(LESSON, 1, gathered, seed)


WRONG = [
    no_op,
    constant,
    half_of_it,
    upper_order,
    low_precision,
    float64,
    mutates,
    Replay(gathered),
    ByHeart(LESSON, 1, gathered),
]


@pytest.mark.parametrize("answer", WRONG, ids=named)
def test_wrong_answers_fail(answer):
    with pytest.raises(CheckFailed):
        check.run(LESSON, 1, answer)


@pytest.mark.parametrize("answer", [two_products, by_the_tape, pair_by_pair])
def test_right_answers_over_the_budget_fail_by_it(answer):
    with pytest.raises(CheckFailed, match="Budget"):
        check.run(LESSON, 1, answer)


def test_the_stock_machine_is_right(swapped):
    check.run(LESSON, 2, factorization_machine.baseline)


WRONG_MACHINES = {
    "nothing": lambda v, dim: tf.zeros([v.shape[0], dim]),
    "each pair twice": lambda v, dim: 2 * factorization_machine.baseline(v, dim),
    "with itself": lambda v, dim: 0.5 * tf.reduce_sum(tf.reshape(v, [-1, v.shape[1] // dim, dim]), 1) ** 2,
    "forgets the last field": lambda v, dim: factorization_machine.baseline(v[:, : v.shape[1] - dim], dim),
    "half precision": lambda v, dim: tf.cast(tf.cast(factorization_machine.baseline(v, dim), tf.bfloat16), tf.float32),
}


@pytest.mark.parametrize("name", WRONG_MACHINES)
def test_wrong_kernels_fail(swapped, name):
    with pytest.raises(CheckFailed):
        check.run(LESSON, 2, WRONG_MACHINES[name])


def test_a_slow_kernel_fails_by_its_budget(swapped):
    def slow(fields, dim):
        time.sleep(0.25 if fields.shape[1] > 10_000 else 0)
        return factorization_machine.fused(fields, dim)

    with pytest.raises(CheckFailed, match="Budget: one pass"):
        check.run(LESSON, 2, slow)
