"""Checks of 02_ops/02_one_lookup: (1) merging the gradients of equal ids, (2) the learner's own lookup kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from ctrlab.lessons.exercise import Close, Each, Exercise, tensors
from ctrlab.lessons.limits import Traced
from ctrlab.ops import lookup
from ctrlab.ops.lookup import Layout
from ctrlab.ops.references import merge
from ctrlab.ops.references.arrays import Slices

IDS, DIM, ROWS = 512, 16, 100_000


def of_ids(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """The cases: (description, ids): random ones, then those that break a careless answer."""
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


def with_rows(rng: np.random.Generator, cases: Iterable[tuple[str, np.ndarray]]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for case, ids in cases:
        yield case, ids, rng.standard_normal((len(ids), 3)).astype(np.float32)


def batches(rng: np.random.Generator) -> Iterator[tuple[str, list, list, Layout]]:
    """The cases: (description, two tables, columns, layout): as WDL has them, pooled, and as DIN has them, two histories side
    by side.
    """
    lengths = rng.integers(0, 6, 9)
    history = tf.RaggedTensor.from_row_lengths(tf.constant(rng.integers(-1, 20, lengths.sum())), lengths)
    beside = history.with_values(tf.constant(rng.integers(-1, 7, lengths.sum())))
    single = tf.constant(rng.integers(-1, 20, 9))
    empty = tf.RaggedTensor.from_row_lengths(tf.zeros(0, tf.int64), [0, 0])
    for case, columns, layout in (
        ("one id a row", [single], Layout((0,), ("mean",), (0,))),
        ("a bag, summed, beside one id a row", [history, single], Layout((0, 0), ("sum", "mean"), (0, 0))),
        ("the mean of a bag", [beside], Layout((1,), ("mean",), (0,))),
        ("two histories side by side", [history, beside], Layout((0, 1), ("rows", "rows"), (0, 0))),
        (
            "everything at once",
            [single, history, beside, history],
            Layout((0, 0, 1, 0), ("mean", "rows", "rows", "mean"), (0, 1, 1, 0)),
        ),
        ("rows without any id", [empty, empty], Layout((0, 1), ("mean", "sum"), (0, 0))),
    ):
        dims = rng.integers(1, 20, 2)
        tables = [tf.Variable(rng.standard_normal((size, dim)), dtype=tf.float32) for size, dim in zip((20, 7), dims)]
        yield case, tables, columns, layout


BUDGET = Traced(
    rule="no tensor larger than the rows that came in, and the rows are copied at most once; no loop over ids",
    largest_elements=IDS * DIM,
    bytes=4 * 4 * IDS * DIM,
    on=lambda rng: (tf.constant(rng.integers(0, ROWS, IDS)), tf.zeros((IDS, DIM))),
    of=f"{IDS} ids below {ROWS:,} with rows of {DIM}",
    next_step="a segment sum makes [u, D]; nothing of the table's size is needed",
)
CHECKS = {
    1: Exercise(
        asks="merge(ids, rows): int64 [n], float32 [n, D] -> ids int64 [u], ascending, and sums float32 [u, D]",
        cases=lambda rng: with_rows(rng, of_ids(rng)),
        reference=lambda ids, rows: merge.reference(Slices(ids, rows)),
        given=tensors,
        compare={
            "ids": Close("each id once, ascending: in which order do yours come?", dtype=np.int64),
            "rows": Close("rows of equal ids are added up"),
        },
        limits=[BUDGET],
        afterwards=lambda rng: with_rows(rng, LARGE.items()),
        run_it="run it on these ids, and print each intermediate result",
    ),
    2: Exercise(
        asks="the op `answer(tables, columns, layout)` with the learner's kernel inside: a list of outputs",
        kernel="lookup",
        cases=batches,
        reference=lookup.OP.reference,
        compare=Each("output", Close("a column's numbers begin at row * width + offset of its output")),
    ),
}
