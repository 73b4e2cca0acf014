"""Checks of 01_baseline/03_six_models: (1) the second-order term of a factorization machine, (2) the AUC of scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ctrlab.lessons.exercise import Close, Exercise, Number, tensors
from ctrlab.lessons.limits import NoLoop, Peak, Stated, Traced

MANY = 6_000
MOST_STEPS = 2_000  # of the interpreter, lines and calls
MOST_BYTES = 250  # a row at the peak: some arrays of 8 bytes; a table of all pairs has thousands
TOLERANCE = 1e-9


def second_order(v: np.ndarray) -> np.ndarray:
    """The definition: v [B, F, D] -> the sum over all pairs of fields i < j of v_i * v_j, float64 [B, D]."""
    rows, fields, dim = v.shape
    total = np.zeros((rows, dim))
    for i in range(fields):
        for j in range(i + 1, fields):
            total += v[:, i].astype(np.float64) * v[:, j]
    return total


def embeddings(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray]]:
    """The cases: (description, v float32 [B, F, D])."""
    for _ in range(3):
        yield "random vectors", vectors(rng, *rng.integers(2, [9, 12, 7]))
    yield "two fields", vectors(rng, 4, 2, 3)
    yield "fields that all have the same vector", np.repeat(vectors(rng, 5, 1, 4), 6, axis=1)
    yield "a single field, so no pair at all", vectors(rng, 3, 1, 4)
    yield "a single row", vectors(rng, 1, 8, 16)
    yield "no rows", vectors(rng, 0, 5, 4)


def vectors(rng: np.random.Generator, rows: int, fields: int, dim: int) -> np.ndarray:
    return rng.normal(size=(rows, fields, dim)).astype(np.float32)


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """The definition: the fraction of (one, zero) pairs in which the one has the higher score; ties count half."""
    ones, zeros = scores[labels == 1][:, None], scores[labels == 0][None, :]
    if not ones.size or not zeros.size:
        return float("nan")
    return float(np.mean((ones > zeros) + 0.5 * (ones == zeros)))


def scored(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The cases: (description, labels [n], scores [n])."""
    for rate in (0.5, 0.1):
        n = int(rng.integers(100, 300))
        labels = (rng.random(n) < rate).astype(np.float32)
        labels[:2] = 0, 1
        yield "scores that all differ", labels, (rng.normal(size=n) + labels).astype(np.float32)
        yield "scores of which many are equal", labels, np.round(rng.normal(size=n) + labels).astype(np.float32)
    labels = rng.permutation(np.repeat([0, 1], [30, 10])).astype(np.float32)
    yield "a model that is always right", labels, labels
    yield "a model that is always wrong", labels, -labels
    yield "a constant score", labels, np.full(40, 0.3, np.float32)
    yield "two rows", np.array([1, 0], np.float32), np.array([-5, -7], np.float32)
    yield "no row with a click (so: nan)", np.zeros(9, np.float32), rng.normal(size=9).astype(np.float32)
    yield "clicks only (so: nan)", np.ones(9, np.float32), rng.normal(size=9).astype(np.float32)
    yield "no rows (so: nan)", np.zeros(0, np.float32), np.zeros(0, np.float32)


def many(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.integers(0, 2, MANY).astype(np.float32), rng.normal(size=MANY).astype(np.float32)


def close_pairs(received: object, expected: np.ndarray, case: str, question: Sequence) -> None:
    """Close, relative to the sum's terms: of a single field both are large, and what is left of them is rounding."""
    terms = np.linalg.norm(np.square(question[0], dtype=np.float64).sum(1)) / max(np.linalg.norm(expected), 1e-30)
    Close(PAIRS, rtol=1e-5 * min(max(1.0, terms), 1e30))(received, expected, case, question)


PAIRS = "try it with three numbers: what do you get of (a + b + c) squared, beside the pairs that you want?"
CHECKS = {
    1: Exercise(
        asks="second_order(v): float32 [B, F, D] -> float32 [B, D]",
        cases=embeddings,
        reference=second_order,
        given=tensors,
        compare=close_pairs,
        limits=[
            Traced(
                "no pairs are made: work for each field, not for each pair, and no tensor above the size of v",
                largest_elements=16 * 100 * 8,
                most_ops=10 * 100,
                of="16 rows of 100 vectors of 8 numbers",
                on=lambda rng: tensors(vectors(rng, 16, 100, 8)),
                next_step=PAIRS,
            ),
            Stated("floats within 0.00001, by norm, of the result or of its terms, whichever is larger"),
        ],
    ),
    2: Exercise(
        asks="auc(labels, scores): [n] each -> float, nan where one class is missing",
        cases=scored,
        reference=auc,
        compare=Number(
            "AUC is the share of (one, zero) pairs in the right order, equal scores counting half",
            "rank the scores from 1, equal ones at their mean rank; the ones' ranks add up to pairs won plus m (m + 1) / 2",
            atol=TOLERANCE,
        ),
        limits=[
            Peak(
                "one sort, no table of pairs",
                f"{MANY:,} rows",
                most=MOST_BYTES * MANY,
                on=many,
                next_step="one sort finds the groups of equal scores (np.unique), and a rank needs no pair",
            ),
            NoLoop("rows", many=MANY, most=MOST_STEPS, on=many),
        ],
    ),
}
