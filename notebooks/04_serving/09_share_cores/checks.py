"""Checks of 04_serving/09_share_cores: (1) the queue in front of several cores, (2) the main model's cores; no clock."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
from ctrlab.lessons.exercise import Exercise
from ctrlab.lessons.limits import Stated

HEAP = "only the moments matter at which cores get free: what keeps the first of them at hand?"
RULE = "after each p99(n), which n can no longer be the answer? Ask so that these are half of what is left"


class Counted(int):
    """A number (a moment or a duration) that counts its comparisons."""

    compared = 0

    def _counting(name: str):
        def compare(self, other):
            Counted.compared += 1
            return getattr(int, name)(self, other)

        return compare

    __lt__, __gt__, __le__, __ge__ = map(_counting, ("__lt__", "__gt__", "__le__", "__ge__"))

    def _kept(name: str):
        def compute(self, other):
            found = getattr(int, name)(self, other)
            return found if found is NotImplemented else Counted(found)

        return compute

    __add__, __radd__, __sub__, __rsub__ = map(_kept, ("__add__", "__radd__", "__sub__", "__rsub__"))
    __hash__ = int.__hash__


def reference_latencies(due: Sequence[int], service: Sequence[int], cores: int) -> list[int]:
    """The definition: each request, in order, begins when it is due and a core is free, on the core that is free first."""
    free, took = [0] * cores, []
    for at, work in zip(due, service):
        core = free.index(min(free))
        free[core] = max(at, free[core]) + work
        took.append(free[core] - at)
    return took


def counted(due: Sequence[int], service: Sequence[int], cores: int) -> tuple:
    """What the answer is called with; comparisons are counted from here on."""
    Counted.compared = 0
    return list(map(Counted, due)), list(map(Counted, service)), cores


def right_and_few_compared(found: object, expected: list[int], case: str, question: Sequence) -> None:
    """Requires the right latencies, found with few comparisons."""
    compared, cores = Counted.compared, question[2]
    where = f"{check.counted(cores, 'core')}, {check.counted(len(expected), 'request')}"
    try:
        listed = list(found)
    except TypeError:
        listed = None
    if listed is None or len(listed) != len(expected):
        raise CheckFailed(
            f"There is one latency per request, in the requests' order; here {case}.",
            expected=check.counted(len(expected), "number"),
            received=type(found).__name__ if listed is None else check.counted(len(listed), "number"),
            index=where,
            next_step="append one number per request to a list, and return the list",
        )
    step = "requests begin in order: when is a core free for this one, is it due by then, and when does it end?"
    if sorted(map(str, listed)) == sorted(map(str, expected)):
        step = "these are the right numbers in another order: begin requests, and list them, in the order of `due`"
    for number, (right, took) in enumerate(zip(expected, listed)):
        if isinstance(took, bool) or not isinstance(took, numbers.Real) or took != right:
            raise CheckFailed(
                f"A request begins when it is due and a core is free; its latency counts from when it is due; here {case}.",
                expected=right,
                received=took,
                index=f"request {number}; {where}",
                next_step=step,
            )
    most = len(expected) * (4 + 3 * math.ceil(math.log2(cores + 1)))
    if compared > most:
        raise CheckFailed(
            f"A request does not look at every core; here {case}.",
            expected=f"at most {most:,} comparisons for {len(expected):,} requests and {cores} cores",
            received=f"{compared:,} comparisons",
            next_step=HEAP,
        )


def _queues(rng: np.random.Generator):
    """The cases: (description, due, service, cores)."""
    at, work = int(rng.integers(3, 900)), int(rng.integers(50, 99))
    yield "no request", [], [], 3
    yield "one request", [at], [work], 1
    yield "two at the same moment, one core", [at, at], [work, work + 7], 1
    yield "two at the same moment, two cores", [at, at], [work, work + 7], 2
    yield "more cores than requests", [at, at, at + 1], [work, 2 * work, 3], 64
    yield "one that is due just when a core gets free", [at, at + work], [work, work], 1
    yield "a long one that short ones pass", [at, at + 1, at + 2, at + 3], [9 * work, 2, 3, 4], 2
    yield "requests that take no time", [at] * 5, [0] * 5, 2
    yield "a core that idled for long", [at, at + 1_000_000, at + 1_000_001], [work] * 3, 1
    for cores in (1, 2, 5, 17):
        count = 300
        due = np.sort(rng.integers(0, 40 * count // cores, count)).tolist()
        yield f"{cores} cores that are busy most of the time", due, rng.integers(1, 80, count).tolist(), cores
    due = np.sort(rng.integers(0, 12_000, 1_500)).tolist()
    yield "128 cores", due, rng.integers(1, 2_000, 1_500).tolist(), 128


class Trial:
    """The main model's p99 with n of the machine's cores, which decreases with n. It records the n for which it was called."""

    def __init__(self, p99: Sequence[float]):
        self.p99, self.asked = list(p99), []

    def __call__(self, n: int) -> float:
        if isinstance(n, bool) or not isinstance(n, numbers.Integral) or not 1 <= n <= len(self.p99):
            raise CtrlabError(f"p99 is asked for a whole number of cores from 1 to {len(self.p99)}; received {n!r}.")
        if len(self.asked) > 10_000:
            raise CtrlabError("A search comes to an end; this one has asked 10,000 times.")
        self.asked.append(int(n))
        return self.p99[int(n) - 1]


def reference_cores(p99: Sequence[float], limit: float, busy: float, cores: int) -> int | None:
    """The definition: the fewest cores within the limit, if more than `busy` are left to the others."""
    return next((n for n in range(1, cores) if cores - n > busy and p99[n - 1] <= limit), None)


def fewest_and_few_asked(found: object, right: int | None, case: str, question: Sequence) -> None:
    """Requires the right number, or None, found with few simulations, none of them twice."""
    trial, limit, busy, cores = question
    where = f"{cores} cores, of which the others keep {busy:.4g} busy; limit {limit:.4g}"
    asked = f"asked for {trial.asked[:12]}" + (" and more" if len(trial.asked) > 12 else "")
    same = found is None if right is None else isinstance(found, numbers.Integral) and found == right
    if isinstance(found, bool) or not same:
        known = "" if right is None else f"; p99({right}) is {trial.p99[right - 1]:.4g}"
        raise CheckFailed(
            "The main model gets the fewest cores whose p99 is within its limit, and the others keep more cores than they "
            f"are busy with; here {case}.",
            expected=right,
            received=found,
            index=f"{where}{known}; {asked}",
            next_step="n is a whole number, at least 1, and cores - n is at least 1 and more than busy; if such an n holds, "
            "return it, else None",
        )
    most, twice = math.ceil(math.log2(cores)) + 1, len(set(trial.asked)) < len(trial.asked)
    if len(trial.asked) > most or twice:
        raise CheckFailed(
            f"Each p99 is a simulation, so few are asked for, and none twice; here {case}.",
            expected="each n once" if twice else f"at most {most} different n",
            received=f"{len(trial.asked)}: {asked}",
            index=where,
            next_step=RULE,
        )


def _machines(rng: np.random.Generator):
    """The cases: (description, p99 of 1 to cores, the limit, the others' busy cores, cores)."""

    def falling(cores: int) -> list[float]:
        return np.sort(rng.uniform(1, 99, cores))[::-1].tolist()

    for cores in (2, 3, 16, 128):
        table = falling(cores)
        yield f"{cores} cores, and one is enough", table, table[0], 0.0, cores
        yield f"{cores} cores, and all but one are needed", table, table[cores - 2], 0.0, cores
        yield f"{cores} cores, and all would be needed", table, table[cores - 1], 0.0, cores
        yield f"{cores} cores, and none are enough", table, 0.5, 0.0, cores
    some = int(rng.integers(20, 40))
    overloaded = [math.inf] * some + falling(64 - some)
    yield "few cores that can't keep up", overloaded, 1e9, 3.5, 64
    table = falling(64)
    right = int(rng.integers(20, 40))
    yield "others whose work is a whole number", table, table[right - 1], float(64 - right - 1), 64
    yield "others whose work is just below a whole number", table, table[right - 1], 64 - right - 0.25, 64
    yield "others that need one core of those more", table, table[right - 1], float(64 - right), 64
    yield "others that need a little more than there is", table, table[right - 1], 64 - right + 0.25, 64
    yield "others that are busier than the machine", table, 99.0, 70.0, 64
    yield "a p99 that no longer falls", [9.0] * 5 + [4.0] * 59, 4.0, 0.0, 64
    for _ in range(30):
        cores = int(rng.integers(2, 300))
        yield "a machine by chance", falling(cores), float(rng.uniform(1, 99)), float(rng.uniform(0, cores)), cores


CHECKS = {
    1: Exercise(
        asks="latencies(due, service, cores): µs [n], µs [n], how many cores -> µs [n] from each request's due time to its end",
        cases=_queues,
        reference=reference_latencies,
        given=counted,
        compare=right_and_few_compared,
        limits=[Stated("at most 4 + 3 log2(cores + 1) comparisons of moments per request, rounded up: 28 for 128 cores")],
        run_it=HEAP,
    ),
    2: Exercise(
        asks="main_cores(p99, limit, busy, cores): n -> µs, µs, cores of the others, all cores -> the fewest cores, or None",
        cases=lambda rng: ((case, Trial(table), *others) for case, table, *others in _machines(rng)),
        reference=lambda trial, limit, busy, cores: reference_cores(trial.p99, limit, busy, cores),
        compare=fewest_and_few_asked,
        limits=[Stated("at most log2(cores) + 1 calls of `p99`, rounded up, each for another n")],
        run_it=RULE,
    ),
}
