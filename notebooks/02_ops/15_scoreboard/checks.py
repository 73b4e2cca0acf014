"""Checks of 02_ops/15_scoreboard: (1) the contest's score, (2) the share of the gap that is closed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Exercise, Number

SPOILT = 864_000.0


class Once(dict):
    """A dict that notices when one of its values is looked up twice."""

    def __init__(self, entries: dict):
        super().__init__(entries)
        self.seen: list = []

    def __getitem__(self, key):
        self.seen.append(key)
        return super().__getitem__(key)


def _races(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, the five dicts, the score)."""
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
        yield f"{case}, each above its bar", *entries, right
        last = names[-1]
        yield f"{case}, one exactly at its bar", *entries[:3], auc | {last: bars[last]}, bars, right
        yield f"{case}, the last one below its bar", *entries[:3], auc | {last: bars[last] - 1e-4}, bars, SPOILT
        yield f"{case}, an AUC of nan", *entries[:3], auc | {names[0]: float("nan")}, bars, SPOILT


def races(rng: np.random.Generator) -> Iterator[tuple]:
    for case, *entries, right in _races(rng):
        yield case, *map(Once, entries), right


SCORE = Number(
    "The score is seconds / trained x steps, added up; 864,000 where an AUC is below its bar",
    "seconds a step, times the contest's steps",
    rtol=1e-5,
)


def in_one_pass(received: object, expected: float, case: str, question: Sequence) -> None:
    twice = [key for entry in question[:-1] for key in set(entry.seen) if entry.seen.count(key) > 1]
    if twice:
        raise CheckFailed(
            f"No model is looked at twice; here {case}.",
            expected="each value read once",
            received=f"{twice[0]!r} read again",
            next_step="one pass for the bars, one for the seconds",
        )
    SCORE(received, expected, case, question)


def gaps(rng: np.random.Generator) -> Iterator[tuple[str, float, float, float, float | None]]:
    """The cases: (description, stock, ours, floor, percent or None)."""
    for _ in range(4):
        floor = float(rng.uniform(1, 10))
        stock, ours = floor * float(rng.uniform(2, 9)), floor * float(rng.uniform(1, 12))
        yield "random times", stock, ours, floor, 100 * (stock - ours) / (stock - floor)
    yield "ours at the floor", 8.0, 2.0, 2.0, 100.0
    yield "ours as slow as stock", 8.0, 8.0, 2.0, 0.0
    yield "ours slower than stock", 8.0, 11.0, 2.0, -50.0
    yield "stock at the floor", 2.0, 2.0, 2.0, None
    yield "stock below the floor that was measured", 1.5, 1.7, 2.0, None


CHECKS = {
    1: Exercise(
        asks="contest_score(seconds, trained, steps, auc, bars): five dicts by model -> seconds of the whole contest",
        cases=races,
        reference=lambda *entries: entries[-1],
        given=lambda *entries: entries[:-1],
        compare=in_one_pass,
    ),
    2: Exercise(
        asks="gap_closed(stock, ours, floor): seconds each -> percent, or None where there is no gap",
        cases=gaps,
        reference=lambda stock, ours, floor, right: right,
        given=lambda stock, ours, floor, right: (stock, ours, floor),
        compare=Number(
            "The share is 100 (stock - ours) / (stock - floor), and None where stock is at the floor",
            "0 at stock, 100 at the floor; compare stock and floor first",
            rtol=1e-5,
        ),
        run_it="what if there is nothing to close? Then nothing is left to divide by",
    ),
}
