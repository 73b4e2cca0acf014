"""Checks of 02_ops/01_indicator_column: (1) the multi-hot by one scatter, (2) the learner's own kernel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import tensorflow as tf

from ctrlab.lessons.exercise import Close, Exercise
from ctrlab.lessons.limits import Traced
from ctrlab.ops import indicator

ROWS, SIZE, LONGEST = 64, 1_000, 20


def random_bags(rng: np.random.Generator, rows: int, size: int, longest: int) -> list[list[int]]:
    """Bags of ids in [-1, size), of 0 to `longest` ids each; -1 is an unknown id."""
    return [rng.integers(-1, size, rng.integers(0, longest + 1)).tolist() for _ in range(rows)]


def bags(rng: np.random.Generator) -> Iterator[tuple[str, list[list[int]], int]]:
    """The cases: (description, bags, V): random ones, then those that break a careless answer."""
    size = int(rng.integers(5, 40))
    id_ = int(rng.integers(0, size))
    for _ in range(3):
        yield "random bags of ids", random_bags(rng, int(rng.integers(2, 9)), size, 6), size
    yield "the same id several times in a row", [[id_] * 3, [id_, 0, id_]], size
    yield "rows without any id", [[], [id_], [], []], size
    yield "no id in the whole batch", [[], [], []], size
    yield "the first and the last id", [[0, size - 1], [size - 1], [0]], size
    yield "unknown ids (-1), which count for nothing", [[-1], [id_, -1], [-1, -1, 0]], size
    yield "a batch of one row", [[id_, 0]], size
    yield "a batch of no rows", [], size
    yield "a vocabulary of one id", [[0], [], [0, 0]], 1


def multi_hot(rows: list[list[int]], size: int) -> np.ndarray:
    """The definition: how often each id occurs in each row, float32 [B, V]."""
    counts = np.zeros((len(rows), size), np.float32)
    for b, row in enumerate(rows):
        for id_ in row:
            if id_ >= 0:
                counts[b, id_] += 1
    return counts


def ragged(rows: list[list[int]]):
    """int64 [B, (L)]."""
    flat, lengths = list(chain.from_iterable(rows)), [len(row) for row in rows]
    return tf.RaggedTensor.from_row_lengths(tf.constant(flat, tf.int64), tf.constant(lengths, tf.int64))


def batches(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, columns, their sizes, kernel [sum of sizes, H], weights): the bags above, beside a column of
    one id a row.
    """

    def kernel(size: int) -> tf.Tensor:
        return tf.constant(rng.standard_normal((size, int(rng.integers(1, 20)))), tf.float32)

    for case, rows, size in bags(rng):
        single = tf.constant(rng.integers(-1, 7, len(rows)), tf.int64)
        yield case, [single, ragged(rows)], [7, size], kernel(7 + size), None
    rows = random_bags(rng, 50, 9, 5)
    weights = tf.constant(rng.standard_normal(sum(map(len, rows))), tf.float32)
    yield "weights", [ragged(rows)], [9], kernel(9), [ragged(rows).with_values(weights)]


BUDGET = Traced(
    rule="the largest tensors are zeros [B, V] and the result; no [B, L, V]",
    largest_elements=ROWS * SIZE,
    bytes=3 * 4 * ROWS * SIZE - 1,
    of=f"{ROWS} bags of up to {LONGEST} ids and V = {SIZE:,}",
    ops={"OneHot": 0},
    on=lambda rng: (ragged(random_bags(rng, ROWS, SIZE, LONGEST)), SIZE),
    next_step="tf.scatter_nd(indices, ones, [B, V]) makes nothing else of that size",
)
CHECKS = {
    1: Exercise(
        asks="multi_hot(ids, size): ragged int64 [B, (L)], V -> float32 [B, V] of counts",
        cases=bags,
        reference=multi_hot,
        given=lambda rows, size: (ragged(rows), size),
        compare=Close("an index is [row, id], and duplicates add up"),
        limits=[BUDGET],
        run_it="run it by hand on a bag that holds -1, the unknown id, and on an empty one",
    ),
    2: Exercise(
        asks="the op `answer(columns, sizes, kernel, weights)` with the learner's kernel inside: float32 [B, H]",
        kernel="indicator",
        cases=batches,
        reference=indicator.OP.reference,
        compare=Close("the row of an id is column.offset + id; -1 adds nothing"),
    ),
}
