"""Checks of 03_embedding/08_analysis: (1) rows and traffic by threshold, (2) the shortest lifetime that keeps a share of
traffic.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ctrlab.lessons.exercise import Close, Exercise, Number
from ctrlab.lessons.limits import NoLoop, Peak

MANY, SETTINGS = 50_000, 400
BUDGET_BYTES = 4_000_000  # a few arrays of MANY numbers; a table of MANY times SETTINGS would be 20 MB even in bits of one byte


def what_if(frequency: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The definition: by threshold, the number of keys that came at least that often, and their share of the traffic (0
    without traffic).
    """
    stay = [frequency >= threshold for threshold in thresholds]
    rows = np.array([np.count_nonzero(s) for s in stay], np.int64)
    return rows, np.array([frequency[s].sum() for s in stay], np.float64) / max(frequency.sum(), 1)


def reports(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The cases: (description, frequency int64 [n], thresholds int64 [k])."""
    for _ in range(3):
        frequency = rng.zipf(1.4, int(rng.integers(20, 200))).clip(max=1 << 40)
        yield "random keys", frequency, np.sort(rng.integers(1, 20, 8))
    yield "thresholds in any order", rng.integers(1, 9, 30), rng.permutation(np.arange(0, 11))
    yield "keys that came equally often", np.full(int(rng.integers(5, 20)), 7), np.array([6, 7, 8])
    yield "counts that float32 does not hold", rng.integers(1 << 30, 1 << 40, 40), np.sort(rng.integers(1 << 30, 1 << 40, 6))
    yield "one key", np.array([int(rng.integers(3, 99))]), np.array([1, 2, 100])
    yield "keys that never came, and a threshold of 0", rng.integers(0, 3, 30) * np.arange(30), np.array([1, 0, 2])
    yield "no key", np.zeros(0, np.int64), np.array([1, 5])
    yield "no threshold", rng.integers(1, 9, 5), np.zeros(0, np.int64)


def many(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The keys and thresholds on which the cost is taken."""
    return rng.zipf(1.4, MANY).clip(max=1 << 30), np.arange(1, SETTINGS + 1)


def shortest_life(last_step: np.ndarray, frequency: np.ndarray, now: int, keep: float) -> int:
    """The definition: the least steps_to_live, at least 1, whose keys have the share `keep` of the traffic."""
    age, wanted = now - last_step, keep * frequency.sum()
    return next(n for n in sorted({1, *age.clip(min=1).tolist()}) if frequency[age <= n].sum() >= wanted)


def lives(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray, int, float]]:
    """The cases: (description, last_step int64 [n], frequency int64 [n], now, keep)."""
    for _ in range(4):
        n, now = int(rng.integers(5, 80)), int(rng.integers(50, 500))
        yield "random keys", rng.integers(1, now + 1, n), rng.integers(1, 30, n), now, float(rng.uniform(0.5, 0.99))
    some = int(rng.integers(2, 40))
    yield "keys of one age", np.full(6, some), np.arange(1, 7), some + 9, 0.5
    yield "a share that is just reached", np.array([9, 8, 5]), np.array([2, 1, 1]), 10, 0.75
    n = 2 * int(rng.integers(500, 1_000))  # even, so that no sum is near to the share
    yield "a share between two percents", n - np.arange(n), np.ones(n, np.int64), n, 0.5 + 4.5 / n
    yield "all of the traffic, to the last of very many", np.array([9, 8]), np.array([1 << 40, 1]), 10, 1.0
    yield "all of the traffic", np.array([3, 60, 61]), np.array([1, 5, 900]), 70, 1.0
    yield "keys that all came in the last step (so: 1)", np.full(4, some), np.ones(4, np.int64), some, 0.9
    yield "one key", np.array([1]), np.array([some]), some + 1, 0.5


CHECKS = {
    1: Exercise(
        asks="what_if(frequency, thresholds): int64 [n], int64 [k] -> rows int64 [k], traffic float64 [k]",
        cases=reports,
        reference=what_if,
        compare={
            "rows": Close("a key that came just `threshold` times is in; thresholds may come in any order", dtype=np.int64),
            "traffic": Close(
                "the occurrences of the keys that are in, over the occurrences of all keys; nothing came: 0",
                dtype=np.float64,
                rtol=1e-9,
            ),
        },
        limits=[
            NoLoop("thresholds", many=SETTINGS, most=SETTINGS // 2, on=many),
            Peak(
                "one sort, and no table of keys times thresholds",
                f"{MANY:,} keys and {SETTINGS} thresholds",
                most=BUDGET_BYTES,
                on=many,
                next_step="sort the frequencies once: from which place on do the keys stay, for each threshold?",
            ),
        ],
    ),
    2: Exercise(
        asks="shortest_life(last_step, frequency, now, keep): int64 [n], int64 [n], int, float -> int",
        cases=lives,
        reference=shortest_life,
        compare=Number(
            "It is the least steps_to_live, 1 or more, that keeps the share of the traffic",
            "a key's age is now - last_step, and it stays while its age is at most steps_to_live",
            whole=True,
            shown=lambda last_step, frequency, now, keep: f"now={now}, keep={keep:.3f}",
        ),
    ),
}
