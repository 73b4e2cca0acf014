"""Checks of 02_ops/15_scoreboard: (1) the contest's score, (2) the share of the gap that is closed."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator

import numpy as np

from ctrlab.lessons.check import CheckFailed, call, require_close

SPOILT = 864_000.0


class Once(dict):
    """A dict that notices when one of its values is looked up twice."""

    def __init__(self, entries: dict):
        super().__init__(entries)
        self.seen: list = []

    def __getitem__(self, key):
        self.seen.append(key)
        return super().__getitem__(key)


def races(rng: np.random.Generator) -> Iterator[tuple[str, list[dict], float]]:
    """(what it is, the five dicts, the score)."""
    for case in ("six models", "one model"):
        names = ["wdl", "deepfm", "dlrm", "din", "dien", "mmoe"][: 6 if case == "six models" else 1]
        entries = [
            {m: float(rng.uniform(1, 50)) for m in names},
            {m: int(rng.integers(20, 200)) for m in names},
            {m: int(rng.integers(100, 30_000)) for m in names},
            {m: float(rng.uniform(0.7, 0.8)) for m in names},
            {m: float(rng.uniform(0.5, 0.7)) for m in names},
        ]
        seconds, trained, steps, auc, bars = entries
        right = sum(seconds[m] / trained[m] * steps[m] for m in names)
        yield f"{case}, each above its bar", entries, right
        last = names[-1]
        yield f"{case}, one exactly at its bar", [*entries[:3], auc | {last: bars[last]}, bars], right
        yield f"{case}, the last one below its bar", [*entries[:3], auc | {last: bars[last] - 1e-4}, bars], SPOILT
        yield f"{case}, an AUC of nan", [*entries[:3], auc | {names[0]: float("nan")}, bars], SPOILT


def check_score(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `contest_score(seconds, trained, steps, auc, bars)` -> seconds of the whole contest."""
    for case, entries, right in races(rng):
        given = [Once(entry) for entry in entries]
        received = call(answer, *given, case=case)
        if [dict(g) for g in given] != entries and "nan" not in case:
            raise CheckFailed("The dicts are left as they were.", expected=entries, received=given, next_step="only read them")
        twice = [key for g in given for key in set(g.seen) if g.seen.count(key) > 1]
        if twice:
            raise CheckFailed(
                f"No model is looked at twice; here {case}.",
                expected="each value read once",
                received=f"{twice[0]!r} read again",
                next_step="one pass for the bars, one for the seconds",
            )
        require_number(received, case, "seconds / trained x steps, added up; 864,000 where an AUC is below its bar")
        require_close(np.float64(received), np.float64(right), case=case, next_step="seconds a step, times the contest's steps")


def gaps(rng: np.random.Generator) -> Iterator[tuple[str, tuple[float, float, float], float | None]]:
    """(what it is, (stock, ours, floor), percent or None)."""
    for _ in range(4):
        floor = float(rng.uniform(1, 10))
        stock, ours = floor * float(rng.uniform(2, 9)), floor * float(rng.uniform(1, 12))
        yield "random times", (stock, ours, floor), 100 * (stock - ours) / (stock - floor)
    yield "ours at the floor", (8.0, 2.0, 2.0), 100.0
    yield "ours as slow as stock", (8.0, 8.0, 2.0), 0.0
    yield "ours slower than stock", (8.0, 11.0, 2.0), -50.0
    yield "stock at the floor", (2.0, 2.0, 2.0), None
    yield "stock below the floor that was measured", (1.5, 1.7, 2.0), None


def check_gap(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `gap_closed(stock, ours, floor)` -> percent, or None where there is no gap."""
    for case, times, right in gaps(rng):
        received = call(
            answer, *times, case=case, next_step="what if there is nothing to close? Then nothing is left to divide by"
        )
        if right is None:
            if received is not None:
                raise CheckFailed(
                    f"Where stock is at the floor there is no gap; here {case}.",
                    expected=None,
                    received=received,
                    next_step="compare stock and floor first",
                )
            continue
        require_number(received, case, "100 (stock - ours) / (stock - floor)")
        require_close(np.float64(received), np.float64(right), case=case, next_step="0 at stock, 100 at the floor")


def require_number(value: object, case: str, next_step: str) -> None:
    if not isinstance(value, numbers.Real):
        raise CheckFailed(f"The answer is a number; here {case}.", expected="a number", received=repr(value), next_step=next_step)


CHECKS = {1: check_score, 2: check_gap}
