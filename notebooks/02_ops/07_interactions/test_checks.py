"""The checks of the lesson on interactions against right answers and every kind of wrong one."""

import numpy as np
import pytest
import tensorflow as tf
from solved import solved
from wrong_answers import judge

from ctrlab.errors import CtrlabError
from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
from ctrlab.ops import factorization_machine, kernel_swap

LESSON = "02_ops/07_interactions"
gathered = solved(LESSON, 1)


def table(count):
    row, column = np.tril_indices(count, -1)
    place = np.full((count, count), len(row))
    place[row, column] = place[column, row] = np.arange(len(row))
    return row, column, place


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


WRONG = [no_op, constant, half_of_it, upper_order, low_precision, float64, mutates]
TOO_MUCH = dict.fromkeys((two_products, by_the_tape, pair_by_pair), "Budget")
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (gathered, dict.fromkeys(WRONG) | TOO_MUCH)})


KERNEL = """
using namespace ctrlab;
CTRLAB_EXPORT void ctrlab_factorization_machine(const InteractionInput* input, float* out, const ParallelFor* parallel_for) {
  const int64_t F = input->field_count, D = input->dim;
  (*parallel_for)(input->rows, F * D / 4, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const float* v = input->fields + b * F * D;
      for (int64_t d = 0; d < D; ++d) {
        float pairs = 0;
        BODY
        out[b * D + d] = pairs;
      }
    }
  });
}
"""
ONE_PASS = "float sum = 0; for (int64_t f = 0; f < F; ++f) { pairs += v[f * D + d] * sum; sum += v[f * D + d]; }"
ALL_PAIRS = "for (int64_t f = 0; f < F; ++f) for (int64_t g = 0; g < f; ++g) pairs += v[f * D + d] * v[g * D + d];"


@pytest.fixture
def compiled():
    """compiled(body) puts a kernel in place; ours comes back."""
    yield lambda body: kernel_swap.swap("factorization_machine", KERNEL.replace("BODY", body), seconds=60)
    kernel_swap.restore("factorization_machine")


def test_one_pass_is_right(compiled):
    compiled(ONE_PASS)
    check.run(LESSON, 2, factorization_machine.fused)


def test_all_pairs_are_right_and_too_much_work(compiled):
    compiled(ALL_PAIRS)
    with pytest.raises(CheckFailed, match=r"(?s)Budget: one pass.* 1\d\.\d times"):
        check.run(LESSON, 2, factorization_machine.fused)

    def work():
        return kernel_swap.counts("factorization_machine", lambda: factorization_machine.fused(tf.ones([2, 80]), 8))

    assert work() == work() and work().blocks > 0 and work().allocations == 0


def test_an_answer_that_does_not_run_the_kernel_is_refused(compiled):
    compiled(ONE_PASS)
    with pytest.raises(CheckFailed, match=r"(?s)The op runs on your kernel.*calls of ctrlab_factorization_machine"):
        check.run(LESSON, 2, factorization_machine.baseline)


def test_our_own_kernel_is_not_counted():
    with pytest.raises(CtrlabError, match="swap yours in first"):
        kernel_swap.counts("factorization_machine", lambda: None)


WRONG_MACHINES = {
    "nothing": lambda v, dim: tf.zeros([v.shape[0], dim]),
    "each pair twice": lambda v, dim: 2 * factorization_machine.baseline(v, dim),
    "with itself": lambda v, dim: 0.5 * tf.reduce_sum(tf.reshape(v, [-1, v.shape[1] // dim, dim]), 1) ** 2,
    "forgets the last field": lambda v, dim: factorization_machine.baseline(v[:, : v.shape[1] - dim], dim),
    "half precision": lambda v, dim: tf.cast(tf.cast(factorization_machine.baseline(v, dim), tf.bfloat16), tf.float32),
}


_, test_wrong_kernels_are_refused = judge(LESSON, {2: ((), WRONG_MACHINES)}, kernels=True)
