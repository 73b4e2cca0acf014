"""Checks of 01_baseline/03_six_models: (1) the second-order term of a factorization machine, (2) the AUC of scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ctrlab.lessons.budget import Budget
from ctrlab.lessons.check import CheckFailed, call, require_close
from ctrlab.lessons.interpreter import interpreted, peak_of

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
    """(what it is, v float32 [B, F, D])."""
    for _ in range(3):
        shape = rng.integers(2, [9, 12, 7])
        yield "random vectors", rng.normal(size=shape)
    yield "two fields", rng.normal(size=(4, 2, 3))
    yield "fields that all have the same vector", np.repeat(rng.normal(size=(5, 1, 4)), 6, axis=1)
    yield "a single field, so no pair at all", rng.normal(size=(3, 1, 4))
    yield "a single row", rng.normal(size=(1, 8, 16))
    yield "no rows", np.zeros((0, 5, 4))


def check_second_order(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `second_order(v)`, float32 [B, F, D] -> float32 [B, D]."""
    import tensorflow as tf

    step = "square the sum over the fields: it has every pair twice, and each vector with itself once"
    for case, v in embeddings(rng):
        v = tf.constant(v, tf.float32)
        received = call(answer, v, case=case)
        require_close(received, second_order(v.numpy()).astype(np.float32), case=case, next_step=step)
    rows, fields, dim = 16, 100, 8
    budget = Budget("no pairs are made: no tensor above the size of v", largest_elements=rows * fields * dim)
    budget.enforce(answer, tf.constant(rng.normal(size=(rows, fields, dim)), tf.float32), next_step=step)


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """The definition: the share of (one, zero) pairs in which the one has the higher score, equal scores counting half."""
    ones, zeros = scores[labels == 1][:, None], scores[labels == 0][None, :]
    if not ones.size or not zeros.size:
        return float("nan")
    return float(np.mean((ones > zeros) + 0.5 * (ones == zeros)))


def scored(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(what it is, labels [n], scores [n])."""
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


def check_auc(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `auc(labels, scores)`, [n] each -> float, nan where one class is missing."""
    step = "rank the scores from 1, equal ones at the mean of their ranks; the ones' ranks add up to pairs won plus m (m + 1) / 2"
    for case, labels, scores in scored(rng):
        received = call(answer, labels, scores, case=case)
        expected = auc(labels, scores)
        rule = f"AUC is the share of (one, zero) pairs in the right order, equal scores counting half; here {case}."
        if not isinstance(received, float | int | np.floating):
            raise CheckFailed(rule, expected="one number", received=repr(received), next_step="return a float")
        if np.isnan(expected) and np.isnan(received):
            continue
        if not abs(received - expected) <= TOLERANCE:
            raise CheckFailed(rule, expected=expected, received=received, next_step=step)
    enforce_budget(answer, rng)


def enforce_budget(answer: Callable, rng: np.random.Generator) -> None:
    """One sort: no table of pairs, and no loop over rows."""
    labels, scores = rng.integers(0, 2, MANY).astype(np.float32), rng.normal(size=MANY).astype(np.float32)
    steps = interpreted(answer, labels, scores)
    peak = peak_of(answer, labels, scores)
    rule = "Budget: one sort, no table of pairs, no loop over rows."
    for what, spent, most in (("bytes", peak, MOST_BYTES * MANY), ("lines and calls of Python", steps, MOST_STEPS)):
        if spent > most:
            received = f"{spent:,} {what} for {MANY:,} rows"
            raise CheckFailed(
                rule, expected=f"at most {most:,}", received=received, next_step="np.unique and np.cumsum give ranks"
            )


CHECKS = {1: check_second_order, 2: check_auc}
