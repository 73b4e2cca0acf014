"""Checks of 02_ops/07_interactions: (1) the gradient of the pairs by one product, (2) the learner's kernel of DeepFM's pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons import own_kernel
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Close, Exercise
from ctrlab.lessons.limits import Stated, Traced
from ctrlab.ops import dot_interaction, factorization_machine

ROWS, VECTORS, DIM = 64, 20, 8
MANY, MOST_GROWTH = 100, 6.0


def shapes(rng: np.random.Generator) -> Iterator[tuple[str, int, int, int]]:
    """The cases: (description, B, U, D)."""
    for _ in range(3):
        yield "random vectors", *(int(rng.integers(2, most)) for most in (9, 12, 20))
    yield "two vectors, one pair", 5, 2, 3
    yield "vectors of one number", 5, 6, 1
    yield "a batch of one row", 1, 7, 4
    yield "a batch of no rows", 0, 7, 4
    yield "the contest's sizes", 3, 27, 16


def vectors(rng: np.random.Generator, rows: int, count: int, dim: int) -> tuple[tf.Tensor, tf.Tensor]:
    """u, float32 [B, U, D], and g, float32 [B, P]."""
    u, g = rng.standard_normal((rows, count, dim)), rng.standard_normal((rows, count * (count - 1) // 2))
    return tf.constant(u, tf.float32), tf.constant(g, tf.float32)


def gradient(u: tf.Tensor, g: tf.Tensor) -> np.ndarray:
    """The definition, float32 [B, U, D]."""
    rows, count, dim = u.shape
    flat = np.reshape(u.numpy(), (rows, count * dim))
    return dot_interaction.OP.reference_gradient(None, flat, dim, g)[1].reshape(rows, count, dim).astype(np.float32)


def fields(rng: np.random.Generator) -> Iterator[tuple[str, tf.Tensor, int]]:
    """The cases: (description, fields, float32 [B, U * D], D)."""
    for case, rows, count, dim in shapes(rng):
        yield case, tf.constant(rng.standard_normal((rows, count * dim)), tf.float32), dim


def require_one_pass(answer: Callable, rng: np.random.Generator) -> None:
    """The budget of exercise 2: four times the fields may take about four times the work; visiting all pairs would take
    sixteen times.
    """

    def work(fields: int) -> int:
        given = tf.constant(rng.standard_normal((8, fields * DIM)), tf.float32)
        return own_kernel.counts("factorization_machine", lambda: answer(given, DIM)).blocks

    ratio = work(4 * MANY) / work(MANY)
    if ratio > MOST_GROWTH:
        raise CheckFailed(
            "Budget: one pass over the fields.",
            wrong=f"For {4 * MANY} fields the kernel takes {ratio:.1f} times the work that {MANY} fields take.",
            expected=f"for {4 * MANY} fields about 4 times the work that {MANY} fields take",
            received=f"{ratio:.1f} times",
            next_step="keep a running sum instead of a loop over the other fields",
        )


BUDGET = Traced(
    rule="one matrix product, nothing scattered, no tensor larger than [B, U, U]",
    largest_elements=ROWS * VECTORS * VECTORS,
    ops={"Scatter": 0, "SegmentSum": 0, "MatMul|Einsum": 1},
    on=lambda rng: vectors(rng, ROWS, VECTORS, DIM),
    of=f"{ROWS} rows of U = {VECTORS} vectors of {DIM} numbers",
    next_step="gather a symmetric [B, U, U] from g, then one tf.matmul",
)
CHECKS = {
    1: Exercise(
        asks="pairs_gradient(u, g): float32 [B, U, D] and [B, P] -> float32 [B, U, D]",
        cases=lambda rng: ((case, *vectors(rng, *sizes)) for case, *sizes in shapes(rng)),
        reference=gradient,
        compare=Close("pair (i, j) adds g times vector j to vector i, and g times vector i to vector j"),
        limits=[BUDGET],
        run_it="U is u.shape[1]; the number of rows may be 0",
    ),
    2: Exercise(
        asks="the op `answer(fields, dim)` with the learner's kernel inside: float32 [B, 1]",
        kernel="factorization_machine",
        cases=fields,
        reference=factorization_machine.OP.reference,
        compare=Close("each field meets the sum of the fields before it"),
        limits=[Stated(f"for {4 * MANY} fields at most {MOST_GROWTH:g} times the work for {MANY}", require_one_pass)],
    ),
}
