"""Checks of the lesson on when more workers lose: (1) the seconds of a ring all-reduce, (2) the fewest workers; no clock."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Sequence

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Exercise
from ctrlab.lessons.limits import NoLoop, Stated
from ctrlab.lessons.outcome import plain

ROUNDS = "three workers take four rounds: count those of W workers, and the bytes that one of them sends in one round"
ARRAYS = "use +, -, * and / on whole arrays: no loop and no `if` about the number of workers"
SEARCH = "from 2 on, while they fall, seconds(w) > seconds(w + 1): halve the range by that; then halve again for the limit"
RELATIVE = 1e-9
"""The relative tolerance; a right answer's rounding is far below it."""
MANY = 2_000
"""The number of workers in an array; a formula takes a few lines of Python for it, a loop at least this many."""


def reference_ring(size, workers, latency: float, per_byte: float):
    """The definition, step by step: the seconds of the messages that one of W workers sends, one after the other."""
    seconds = 0.0
    for _ in range(2 * (workers - 1)):
        seconds += latency + size / workers * per_byte
    return seconds


def seconds_of_ring(size, workers, latency: float, per_byte: float) -> np.ndarray:
    """The definition, also for arrays of workers."""
    counts = np.asarray(workers)
    return np.array([reference_ring(size, int(w), latency, per_byte) for w in counts.flat]).reshape(counts.shape)


def close_seconds(found: object, expected: np.ndarray, case: str, question: Sequence) -> None:
    """A number for a number of workers, an array for an array, each within RELATIVE."""
    workers = question[1]
    if isinstance(workers, np.ndarray):
        if not isinstance(found, np.ndarray) or found.shape != workers.shape:
            raise CheckFailed(
                "Budget: an array of workers gives an array of seconds, without a loop.",
                expected=f"float64 array of shape {workers.shape}",
                received=f"array of shape {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__,
                index=case,
                next_step=ARRAYS,
            )
    elif isinstance(found, bool) or not (np.ndim(found) == 0 and np.asarray(found).dtype.kind in "iuf"):
        raise CheckFailed(
            f"One number of workers gives one number of seconds; here {case}.",
            expected="a number",
            received=type(found).__name__,
            next_step=ROUNDS,
        )
    _require_seconds(found, expected, case, *question)


def _require_seconds(found, expected: np.ndarray, case: str, size, workers, latency: float, per_byte: float) -> None:
    try:
        numbers_found = np.asarray(found, float)
    except (TypeError, ValueError):
        numbers_found = np.full(expected.shape, np.nan)
    for place, (right, took) in enumerate(zip(expected.flat, numbers_found.flat)):
        if not math.isclose(took, right, rel_tol=RELATIVE, abs_tol=1e-18):
            count = workers.flat[place] if isinstance(workers, np.ndarray) else workers
            raise CheckFailed(
                f"The seconds are those of the animation's rounds; here {case}.",
                expected=f"{right:.9g}, within {RELATIVE:g} of it",
                received=f"{took:.9g}",
                index=f"{size} bytes, {count} workers, latency {latency:g}, per byte {per_byte:g}",
                next_step=_next_step(float(took), right, size, int(count), latency, per_byte, np.asarray(found).dtype),
            )


def _next_step(took: float, right: float, size: int, workers: int, latency: float, per_byte: float, dtype: np.dtype) -> str:
    """The next step to try: for a usual mistake, its cure."""
    if workers == 1:
        return "one worker sends nothing"
    rounds, chunk = 2 * (workers - 1), size / workers
    slips = {
        "yours is half of it: how many rounds take the sums to all workers?": rounds / 2 * (latency + chunk * per_byte),
        "per_byte is seconds per byte, so nothing is multiplied by 8 bits": rounds * (latency + 8 * chunk * per_byte),
        "a message has one chunk, size / workers, not the whole gradient": rounds * (latency + size * per_byte),
        "chunks are parts of a byte, too: / in place of //": rounds * (latency + size // workers * per_byte),
        "each round has a message, and each message its latency: yours has it once": latency + rounds * chunk * per_byte,
        "yours has the latency twice: each round has its latency": 2 * latency + rounds * chunk * per_byte,
        "all workers send at the same time: yours adds up what each sends": workers * rounds * (latency + chunk * per_byte),
        "yours has two rounds too many: a sum needs fewer than W rounds, not W": 2 * workers * (latency + chunk * per_byte),
    }
    rounded = f"yours is {dtype}, and differs by less than 0.00001 of it: is anything rounded?"
    other = rounded if math.isclose(took, right, rel_tol=1e-5) else ROUNDS
    return next((says for says, wrong in slips.items() if math.isclose(took, wrong, rel_tol=1e-12)), other)


def _rings(rng: np.random.Generator) -> Iterator[tuple]:
    """The cases: (description, bytes, workers, seconds per message, seconds per byte)."""
    size, latency, per_byte = int(rng.integers(1e6, 1e8)), float(rng.uniform(1e-6, 1e-3)), float(rng.uniform(1e-10, 1e-7))
    yield "five workers", size, 5, latency, per_byte  # of two, some slips are alike
    yield "two workers", size, 2, latency, per_byte
    yield "one worker", size, 1, latency, per_byte
    yield "messages without latency", size, 5, 0.0, per_byte
    yield "bytes that take no time", size, 5, latency, 0.0
    yield "nothing to sum", 0, 6, latency, per_byte
    yield "fewer bytes than workers", 3, 17, latency, per_byte
    yield "bytes that the workers don't divide", 10**6 + 1, 7, latency, per_byte
    yield "an array of workers", size, np.arange(1, 40), latency, per_byte
    yield "an array with two axes", size, rng.integers(1, 300, (3, 4)), latency, per_byte
    yield "an empty array", size, np.zeros(0, int), latency, per_byte
    for _ in range(8):
        yield "a ring by chance", int(rng.integers(1, 1e9)), int(rng.integers(1, 500)), float(rng.uniform(0, 1)), per_byte


class Trial:
    """Seconds of a step with 1, 2, ... workers: from 2 on they fall, then they rise. It records the numbers for which it was
    called.
    """

    def __init__(self, seconds: Sequence[float]):
        self.seconds, self.asked = list(seconds), []

    def __call__(self, workers: int) -> float:
        if isinstance(workers, bool) or not isinstance(workers, numbers.Integral) or not 1 <= workers <= len(self.seconds):
            raise CtrlabError(f"seconds is asked for a whole number of workers from 1 to {len(self.seconds)}; got {workers!r}.")
        if len(self.asked) > 10_000:
            raise CtrlabError("A search comes to an end; this one has asked 10,000 times.")
        self.asked.append(int(workers))
        return self.seconds[int(workers) - 1]


def reference_fewest(seconds: Sequence[float], slack: float) -> int:
    """The definition: the first whose seconds are within the limit."""
    return next(w for w, each in enumerate(seconds, 1) if each <= slack * min(seconds))


def fewest_and_few_asked(found: object, right: int, case: str, question: Sequence) -> None:
    """Requires the right number, found with few measured steps, none of them twice."""
    trial, most, slack = question
    table = trial.seconds
    best = table.index(min(table)) + 1
    asked = f"asked for {trial.asked[:14]}" + (" and more" if len(trial.asked) > 14 else "")
    if isinstance(found, bool) or not isinstance(found, numbers.Integral) or found != right:
        raise CheckFailed(
            f"The answer is the fewest workers whose step takes at most slack times the shortest; here {case}.",
            expected=right,
            received=found,
            index=f"most {most}, slack {slack:.6g}; the shortest step is at w = {best}; {asked}",
            next_step="first the w with the shortest step, and one worker alone beside it; then the first w with "
            "seconds(w) <= slack * shortest; equal counts",
        )
    budget, twice = 3 * math.ceil(math.log2(most)) + 5, len(set(trial.asked)) < len(trial.asked)
    if len(trial.asked) > budget or twice:
        asks = "twice for one w" if twice else f"for {len(trial.asked)} different w; at most {budget} are allowed"
        raise CheckFailed(
            "Each step is measured on a cluster, so few are asked for, and none twice.",
            wrong=f"It asked {asks}; here {case}.",
            expected="each w once: keep what you know" if twice else f"at most {budget} different w",
            received=f"{len(trial.asked)}: {asked}",
            index=f"most {most}",
            next_step="keep what `seconds` told you, by w" if twice else SEARCH,
        )


def _steps(rng: np.random.Generator) -> Iterator[tuple[str, list[float], float]]:
    """The cases: (description, seconds of a step with 1, 2, ... workers, slack)."""

    def valley(most: int, best: int) -> list[float]:
        """Strictly falling to the `best`-th, then strictly rising."""
        falling = np.sort(rng.uniform(2, 99, best - 1))[::-1]
        rising = np.sort(rng.uniform(2, 99, most - best))
        return [*falling.tolist(), float(rng.uniform(1, 2)), *rising.tolist()]

    yield "one worker and no more", [3.0], 1.05
    yield "two workers, of which one is best", [1.0, 2.0], 1.0
    yield "two workers, of which two are best", [2.0, 1.0], 1.0
    for most in (3, 16, 100, 1_000):
        yield f"up to {most}, and more are always slower", valley(most, 1), 1.05
        yield f"up to {most}, and more are always faster", valley(most, most), 1.0
        yield f"up to {most}, and the best is in between", valley(most, most // 2 + 1), 1.0
        alone = [0.9, *valley(most - 1, most // 2)]
        yield f"up to {most}, and one alone beats all that talk", alone, 1.0
        yield f"up to {most}, and one alone is nearly as fast", [1.02 * min(alone[1:]), *alone[1:]], 1.05
        yield f"up to {most}, and one alone is not near enough", [1.07 * min(alone[1:]), *alone[1:]], 1.05
    at_limit = [64.0, 32.0, 16.0, 8.0, 4.0, 8.0, 16.0, 32.0]
    yield "one that is just at the limit", at_limit, 2.0
    yield "one that is just above the limit", at_limit, math.nextafter(2.0, 0)
    yield "a limit that all are within", at_limit, 100.0
    yield "rising ones within the limit, too", [9.0, 1.01, 1.0, 1.02, 1.03], 1.05
    for _ in range(30):
        most = int(rng.integers(3, 400))
        talking = valley(most - 1, int(rng.integers(1, most)))
        yield "a cluster by chance", [float(rng.uniform(1, 99)), *talking], float(rng.uniform(1, 20))


CHECKS = {
    1: Exercise(
        asks="ring_seconds(size, workers, latency, per_byte): bytes, W or an array of them, seconds, seconds -> seconds",
        cases=_rings,
        reference=seconds_of_ring,
        compare=close_seconds,
        limits=[
            NoLoop("numbers of workers", many=MANY, most=MANY // 4, on=lambda rng: (1e6, rng.integers(1, 500, MANY), 1e-5, 1e-9)),
            Stated(f"seconds within {plain(RELATIVE)} of the right ones"),
        ],
        run_it=ROUNDS,
    ),
    2: Exercise(
        asks="fewest_workers(seconds, most, slack): w -> seconds, W, at least 1 -> the fewest whose step is within the limit",
        cases=lambda rng: ((case, Trial(table), len(table), slack) for case, table, slack in _steps(rng)),
        reference=lambda trial, most, slack: reference_fewest(trial.seconds, slack),
        compare=fewest_and_few_asked,
        limits=[Stated("at most 3 log2(`most`) + 5 calls of `seconds`, rounded up, each for another w")],
        run_it=SEARCH,
    ),
}
