"""Checks of 03_embedding/01_collisions: (1) the share of ids that is expected to collide, (2) the count of those that do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ctrlab.embedding.multihash import expected_collision_rate
from ctrlab.lessons.exercise import Exercise, Number


def sizes(rng: np.random.Generator) -> Iterator[tuple[str, int, int]]:
    """The cases: (description, ids, buckets): random ones, then those that break a careless answer."""
    for _ in range(3):
        yield "random sizes", int(rng.integers(2, 10_000)), int(rng.integers(2, 10_000))
    yield "people and birthdays", 23, 365
    yield "one id alone", 1, 100
    yield "two ids and one bucket", 2, 1
    yield "one id and one bucket", 1, 1
    yield "tens of millions", int(rng.integers(10_000_000, 20_000_000)), 50_000_000
    ids = int(rng.integers(1_000, 100_000))
    yield "a table that is all but empty", ids, ids * int(rng.integers(1_000, 9_000))
    yield "far more ids than buckets", 1_000_000, 10
    yield "more buckets than a float can tell from one more", int(rng.integers(1_000, 1_000_000)), 10**17


def close_share(received, expected: float, case: str, question: Sequence) -> None:
    """The share, as a number. In a large table, the step to try is one about rounding."""
    counted = "an id is alone where none of the other ids - 1 falls into its bucket"
    rounded = "1 - 1e-17 is 1 to a float: where does the formula lose its digits?"
    step = rounded if question[1] >= 10**6 else counted
    share = Number(
        "The share is that of the formula", step, rtol=1e-8, shown=lambda ids, buckets: f"{ids:,} ids, {buckets:,} buckets"
    )
    share(received, expected, case, question)


def count(columns: list[np.ndarray], buckets: int) -> tuple[float, float]:
    """The definition: the share of different ids that collide, and the share of lookups that are others'."""
    ids, counts = np.unique(np.concatenate(columns), return_counts=True)
    if not len(ids):
        return 0.0, 0.0
    _, row, sharing = np.unique(ids % buckets, return_inverse=True, return_counts=True)
    traffic = np.bincount(row, counts)
    return float(np.mean(sharing[row] > 1)), float(np.sum(counts * (1 - counts / traffic[row])) / counts.sum())


def tables(rng: np.random.Generator) -> Iterator[tuple[str, list[np.ndarray], int]]:
    """The cases: (description, columns of one table, buckets)."""

    def zipf(size: int, most: int) -> np.ndarray:
        return (rng.zipf(1.3, size) % most) * int(rng.integers(3, 9)) + int(rng.integers(50))

    for _ in range(3):
        yield "one column", [zipf(400, 300)], int(rng.integers(20, 200))
    yield "item, history and negatives, as in DIN", [zipf(100, 90), zipf(500, 90), rng.integers(0, 500, 300)], 97
    one = int(rng.integers(1, 1_000))
    yield "one id, many times, in two columns", [np.full(9, one), np.full(5, one)], 10
    yield "two ids in one bucket, one of them 99 times in 100", [np.array([one] * 99 + [one + 50])], 50
    yield "a single bucket", [zipf(50, 40)], 1
    yield "fingerprints, and more buckets than memory", [rng.integers(0, 2**63 - 1, 200), np.array([2**63 - 2, 0])], 2**62
    yield "no rows at all", [np.zeros(0, np.int64)], 10
    yield "an empty column beside another", [np.zeros(0, np.int64), zipf(60, 50)], 11


CHECKS = {
    1: Exercise(
        asks="expected_share(ids, buckets): int, int -> float, the share of ids in company",
        cases=sizes,
        reference=expected_collision_rate,
        compare=close_share,
    ),
    2: Exercise(
        asks="count(columns, buckets): a list of int64 [n] each, int -> the share of different ids, the share of lookups",
        cases=tables,
        reference=count,
        compare={
            "collided": Number(
                "The share is that of the different ids whose bucket has others, too",
                "np.unique of all columns together first: an id that comes twice, or in two columns, is one id",
                rtol=1e-9,
            ),
            "foreign": Number(
                "The share is that of the lookups which others have in an id's row",
                "an id that comes f times in a row that is read F times: of its f lookups, 1 - f / F are the others' share",
                rtol=1e-9,
            ),
        },
    ),
}
