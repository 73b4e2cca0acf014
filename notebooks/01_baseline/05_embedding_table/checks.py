"""Checks of 01_baseline/05_embedding_table: (1) the gradients of the rows that a batch read, (2) how few rows serve lookups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ctrlab.lessons.exercise import Close, Exercise, Number
from ctrlab.lessons.limits import NoLoop, Peak

MANY = 20_000
MOST_STEPS = 5_000  # of the interpreter, lines and calls, those of NumPy and pandas included
MOST_BYTES = 40  # per number of the gradients, at the peak: some copies; [u, n] and [V, D] have far more


def row_gradients(ids: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The definition: each id once, ascending, int64 [u], and the sum of its gradients, float32 [u, D]."""
    rows, place = np.unique(ids, return_inverse=True)
    sums = np.zeros((len(rows), gradients.shape[1]))
    np.add.at(sums, place, gradients)
    return rows, sums.astype(gradients.dtype)


def reads(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The cases: (description, ids int64 [n], gradients float32 [n, D]): random ones, then those that break a careless answer."""

    def case(what: str, ids: np.ndarray, dim: int = 3) -> tuple[str, np.ndarray, np.ndarray]:
        return what, np.asarray(ids, np.int64), rng.normal(size=(len(ids), dim)).astype(np.float32)

    for dim in (1, 4, 16):
        yield case("ids that come several times, in any order", rng.integers(0, 20, int(rng.integers(30, 90))), dim)
    yield case("ids that all differ", rng.permutation(50)[:12])
    yield case("one id, many times", np.full(9, rng.integers(100)))
    yield case("a single read", [int(rng.integers(100))])
    yield case("equal ids that do not stand side by side", [7, 3, 7, 3, 7])
    yield case("equal ids with more ids than numbers per row", rng.integers(0, 5, 40), 1)
    yield case("the first and the last row of a large table", [10**12, 0, 10**12, 0, 5])
    yield case("ids that no float32 tells apart", [2**24 + 1, 2**24, 2**24 + 1])
    ids, gradients = np.array([4, 9, 4], np.int64), np.array([[1, -2], [3, 3], [-1, 2]], np.float32)
    yield "two gradients of one id whose sum is zero", ids, gradients
    yield case("a batch that reads nothing", [], 4)


def of_many(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """MANY reads of a table with this number of rows."""
    return rng.integers(0, rows, MANY), rng.normal(size=(MANY, 8)).astype(np.float32)


def large_reads(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    ids = rng.integers(0, 50_000, 200_000)
    yield "200,000 gradients that don't cancel", ids, (1 + rng.random((len(ids), 1))).astype(np.float32)


def hot_rows(ids: np.ndarray, percent: int) -> int:
    """The definition: the smallest number of most frequent ids whose lookups are at least `percent` % of all."""
    often = sorted(np.unique(ids, return_counts=True)[1].tolist(), reverse=True)
    rows = served = 0
    while served * 100 < percent * len(ids):
        served += often[rows]
        rows += 1
    return rows


def lookups(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, int]]:
    """The cases: (description, ids int64 [n], percent). Where lookups and percentage meet exactly, floats have no rounding,
    either.
    """

    def zipf(size: int) -> np.ndarray:
        return rng.zipf(1.4, size) % 500

    for size in (211, 307, 401):  # primes: no percentage between 0 and 100 of them is a whole number of lookups
        yield "a few frequent ids and many rare ones", zipf(size), int(rng.integers(30, 95))
    yield "the frequent ids have large numbers", 1_000 - zipf(211), int(rng.integers(40, 90))
    yield "fingerprints, more than any array has places", rng.choice(rng.integers(0, 2**62, 20), 211), int(rng.integers(30, 90))
    yield "all ids come equally often", rng.permutation(np.repeat(np.arange(8), 5)), 50
    yield "ids that all differ", rng.permutation(64), 75
    yield "exactly half of the lookups are one id's", rng.permutation([3, 3, 3, 3, 5, 6, 7, 8]), 50
    yield "just less than half of the lookups are one id's", rng.permutation([3, 3, 3, 5, 6, 7, 8]), 50
    yield "every lookup is to be served", zipf(211), 100
    for percent in (7, 14, 28, 55, 56):  # where percent / 100 is a little more than it is
        yield "a hundred ids that all differ", np.arange(100), percent
    yield "thirty ids that all differ", np.arange(30), 7
    yield "none is to be served", zipf(211), 0
    yield "one id alone", np.full(9, 6), 30
    yield "a single lookup", np.array([8]), 100
    yield "no lookup at all", np.zeros(0, np.int64), 90


CHECKS = {
    1: Exercise(
        asks="row_gradients(ids, gradients): int64 [n], float32 [n, D] -> rows int64 [u], sums float32 [u, D]",
        cases=reads,
        reference=row_gradients,
        compare={
            "rows": Close("each id once, ascending: np.unique", dtype=np.int64),
            "sums": Close("a row that was read three times gets the sum of three gradients"),
        },
        limits=[
            NoLoop("ids", many=MANY, most=MOST_STEPS, on=lambda rng: of_many(rng, 20 * MANY)),
            Peak(
                "nothing is made that has a line per row of the table, or a column per read",
                f"{MANY:,} reads of a table of {100 * MANY:,} rows",
                most=MOST_BYTES * MANY * 8,
                on=lambda rng: of_many(rng, 100 * MANY),
                next_step="make sums for the rows that were read only, [u, D]",
            ),
        ],
        afterwards=large_reads,
    ),
    2: Exercise(
        asks="hot_rows(ids, percent): int64 [n], whole % -> the fewest rows that serve so many of the lookups",
        cases=lookups,
        reference=hot_rows,
        compare=Number(
            "The answer is the fewest rows that serve so many of the lookups",
            "count each id, sort the counts falling, add them up; how many of them reach the percentage?",
            whole=True,
            shown=lambda ids, percent: f"{percent} %",
        ),
        limits=[NoLoop("ids", many=MANY, most=MOST_STEPS, on=lambda rng: (rng.integers(0, 20 * MANY, MANY), 90))],
    ),
}
