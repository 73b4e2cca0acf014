"""Checks of 03_embedding/08_analysis: (1) rows and traffic by threshold, (2) the shortest lifetime that keeps a share of
traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ctrlab.lessons.check import CheckFailed, call, parts, require_close
from ctrlab.lessons.interpreter import peak_of, require_no_loop

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
    yield "no key", np.zeros(0, np.int64), np.array([1, 5])
    yield "no threshold", rng.integers(1, 9, 5), np.zeros(0, np.int64)


def check_what_if(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `what_if(frequency, thresholds)` -> rows int64 [k], traffic float64 [k]."""
    for case, frequency, thresholds in reports(rng):
        received = call(answer, frequency, thresholds, case=case)
        rows, traffic = parts(received, "rows, traffic", case=case)
        wanted_rows, wanted_traffic = what_if(frequency, thresholds)
        step = "a key that came just `threshold` times is in; thresholds may come in any order"
        require_close(rows, wanted_rows, case=f"rows of {case}", next_step=step, rtol=0)
        step = "the occurrences of the keys that are in, over the occurrences of all keys; nothing came: 0"
        require_close(traffic, wanted_traffic, case=f"traffic of {case}", next_step=step, rtol=1e-9)
    many = rng.zipf(1.4, MANY).clip(max=1 << 30), np.arange(1, SETTINGS + 1)
    require_no_loop(answer, *many, of="thresholds", many=SETTINGS, most=SETTINGS // 2)
    spent = peak_of(answer, *many)
    if spent > BUDGET_BYTES:
        raise CheckFailed(
            "Budget: one sort, and no table of keys times thresholds.",
            expected=f"at most {BUDGET_BYTES:,} bytes",
            received=f"{spent:,} bytes for {MANY:,} keys and {SETTINGS} thresholds",
            next_step="sort the frequencies, sum them from the end, and find each threshold's place with np.searchsorted",
        )


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


def check_shortest_life(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `shortest_life(last_step, frequency, now, keep)` -> int."""
    for case, last_step, frequency, now, keep in lives(rng):
        received = call(answer, last_step, frequency, now, keep, case=case)
        expected = shortest_life(last_step, frequency, now, keep)
        if not isinstance(received, int | np.integer) or isinstance(received, bool) or received != expected:
            raise CheckFailed(
                f"The least steps_to_live, 1 or more, that keeps the share of the traffic; here {case}.",
                expected=expected,
                received=repr(received),
                index=f"now={now}, keep={keep:.3f}",
                next_step="a key's age is now - last_step, and it stays while its age is at most steps_to_live",
            )


CHECKS = {1: check_what_if, 2: check_shortest_life}
