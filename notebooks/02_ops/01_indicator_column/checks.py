"""Checks of 02_ops/01_indicator_column: (1) the multi-hot by one scatter, (2) the learner's own kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import tensorflow as tf

from ctrlab.lessons.budget import Budget
from ctrlab.lessons.check import call, require_close
from ctrlab.lessons.own_kernel import on_own
from ctrlab.ops import indicator

ROWS, SIZE, LONGEST = 64, 1_000, 20


def random_bags(rng: np.random.Generator, rows: int, size: int, longest: int) -> list[list[int]]:
    """Bags of ids in [-1, size), of 0 to `longest` ids each; -1 is an unknown id."""
    return [rng.integers(-1, size, rng.integers(0, longest + 1)).tolist() for _ in range(rows)]


def bags(rng: np.random.Generator) -> Iterator[tuple[str, list[list[int]], int]]:
    """(what it is, bags, V): random ones, then those that break a careless answer."""
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


BUDGET = Budget(
    rule="the largest tensor is the [B, V] result itself, made once; no [B, L, V]",
    largest_elements=ROWS * SIZE,
    bytes=2 * 4 * ROWS * SIZE - 1,
    ops={"OneHot": 0},
)


def check_multi_hot(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `multi_hot(ids, size)`, ragged int64 [B, (L)] -> float32 [B, V] of counts."""
    for case, rows, size in bags(rng):
        received = call(answer, ragged(rows), size, case=case, next_step="is -1 taken out before the scatter?")
        require_close(received, multi_hot(rows, size), case=case, next_step="an index is [row, id], and duplicates add up")
    ids = ragged(random_bags(rng, ROWS, SIZE, LONGEST))
    BUDGET.enforce(answer, ids, SIZE, next_step="tf.scatter_nd(indices, ones, [B, V]) makes nothing else of that size")


def check_kernel(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: the op `answer(columns, sizes, kernel, weights)` with the learner's kernel inside, against the reference."""
    answer = on_own("indicator", answer)
    for case, columns, sizes, weights in batches(rng):
        kernel = tf.constant(rng.standard_normal((sum(sizes), int(rng.integers(1, 20)))), tf.float32)
        received = call(answer, columns, sizes, kernel, weights, case=case, next_step="does it crash with our kernel too?")
        expected = indicator.OP.reference(columns, sizes, kernel, weights).astype(np.float32)
        require_close(received, expected, case=case, next_step="the row of an id is column.offset + id; -1 adds nothing")


def batches(rng: np.random.Generator) -> Iterator[tuple[str, list, list[int], list | None]]:
    """(what it is, C columns, their sizes, weights): the bags above, beside a column of one id a row."""
    for case, rows, size in bags(rng):
        single = tf.constant(rng.integers(-1, 7, len(rows)), tf.int64)
        yield case, [single, ragged(rows)], [7, size], None
    rows = random_bags(rng, 50, 9, 5)
    weights = tf.constant(rng.standard_normal(sum(map(len, rows))), tf.float32)
    yield "weights", [ragged(rows)], [9], [ragged(rows).with_values(weights)]


CHECKS = {1: check_multi_hot, 2: check_kernel}
