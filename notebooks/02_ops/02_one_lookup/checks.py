"""Checks of 02_ops/02_one_lookup: (1) merging the gradients of equal ids, (2) the learner's own lookup kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.budget import Budget
from ctrlab.lessons.check import call, parts, require_close
from ctrlab.lessons.own_kernel import on_own
from ctrlab.ops import lookup
from ctrlab.ops.lookup import Layout
from ctrlab.ops.references import merge
from ctrlab.ops.references.arrays import Slices

IDS, DIM, ROWS = 512, 16, 100_000

BUDGET = Budget(
    rule="no tensor larger than the rows that came in, and the rows are copied at most once; no loop over ids",
    largest_elements=IDS * DIM,
    bytes=4 * 4 * IDS * DIM,
)


def gradients(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """(what it is, ids): random ones, then those that break a careless answer."""
    for _ in range(3):
        yield "random ids", rng.integers(0, 20, int(rng.integers(5, 40)))
    one, other = rng.choice(1_000, 2, replace=False)
    yield "an id three times and another once", np.array([one, one, one, other])
    yield "one id only, many times", np.full(9, other)
    yield "ids that all differ, the largest first", np.sort(rng.choice(ROWS, 12, replace=False))[::-1].copy()
    yield "a single id", np.array([one])
    yield "the first and the last id of a table", np.array([ROWS - 1, 0, ROWS - 1])
    yield "no id at all", np.zeros(0, np.int64)


LARGE = {
    "ids that no float32 tells apart": np.array([20_000_001, 20_000_000, 20_000_001]),
    "ids above 2^32": np.array([(1 << 32) + 7, 7, (1 << 62) + 7, 7]),
}
"""They come last, so that an answer that makes the whole table breaks its budget first."""


def check_merge(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `merge(ids, rows)`, int64 [n] and float32 [n, D] -> ascending int64 [u] and float32 sums [u, D]."""
    for case, ids in gradients(rng):
        _check_sums(answer, rng, case, ids)
    ids = tf.constant(rng.integers(0, ROWS, IDS))
    BUDGET.enforce(
        answer, ids, tf.zeros((IDS, DIM)), next_step="a segment sum makes [u, D]; nothing of the table's size is needed"
    )
    for case, ids in LARGE.items():
        _check_sums(answer, rng, case, ids)


def _check_sums(answer: Callable, rng: np.random.Generator, case: str, ids: np.ndarray) -> None:
    rows = rng.standard_normal((len(ids), 3)).astype(np.float32)
    received = call(
        answer,
        tf.constant(ids, tf.int64),
        tf.constant(rows),
        case=case,
        next_step="run it on these ids, and print each intermediate result",
    )
    received = parts(received, "ids, rows", case=case)
    unique, sums = merge.reference(Slices(ids, rows))
    require_close(received[0], unique.astype(np.int64), case=f"{case}, the ids", next_step="each id once, ascending: sort first")
    require_close(received[1], sums.astype(np.float32), case=f"{case}, the rows", next_step="rows of equal ids are added up")


def check_kernel(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: the op `answer(tables, columns, layout)` with the learner's kernel inside, against the reference."""
    answer = on_own("lookup", answer)
    for case, columns, layout in batches(rng):
        dims = rng.integers(1, 20, 2)
        tables = [tf.Variable(rng.standard_normal((size, dim)), dtype=tf.float32) for size, dim in zip((20, 7), dims)]
        received = call(answer, tables, columns, layout, case=case, next_step="does it crash with our kernel too?")
        for m, expected in enumerate(lookup.OP.reference(tables, columns, layout)):
            step = "a column's numbers begin at row * width + offset of its output"
            require_close(received[m], expected.astype(np.float32), case=f"{case}, output {m}", next_step=step)


def batches(rng: np.random.Generator) -> Iterator[tuple[str, list, Layout]]:
    """(what it is, columns, layout): as WDL has them, pooled, and as DIN has them, two histories side by side."""
    lengths = rng.integers(0, 6, 9)
    history = tf.RaggedTensor.from_row_lengths(tf.constant(rng.integers(-1, 20, lengths.sum())), lengths)
    beside = history.with_values(tf.constant(rng.integers(-1, 7, lengths.sum())))
    single = tf.constant(rng.integers(-1, 20, 9))
    yield "one id a row", [single], Layout((0,), ("mean",), (0,))
    yield "a bag, summed, beside one id a row", [history, single], Layout((0, 0), ("sum", "mean"), (0, 0))
    yield "the mean of a bag", [beside], Layout((1,), ("mean",), (0,))
    yield "two histories side by side", [history, beside], Layout((0, 1), ("rows", "rows"), (0, 0))
    yield (
        "everything at once",
        [single, history, beside, history],
        Layout((0, 0, 1, 0), ("mean", "rows", "rows", "mean"), (0, 1, 1, 0)),
    )
    empty = tf.RaggedTensor.from_row_lengths(tf.zeros(0, tf.int64), [0, 0])
    yield "rows without any id", [empty, empty], Layout((0, 1), ("mean", "sum"), (0, 0))


CHECKS = {1: check_merge, 2: check_kernel}
