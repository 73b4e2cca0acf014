"""Checks of 04_serving/05_latency: (1) the generator of an open loop, (2) the search for the most within a limit; no clock."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Collection, Sequence

import numpy as np
from ctrlab.lessons.topics.latency.stalls import Pause, SimulatedLine

from ctrlab.errors import CtrlabError
from ctrlab.lessons.check import CheckFailed, call, parts
from ctrlab.lessons.limits import stated

PRECISION = 1.08
PERCENT = 99
EARLY = "`line.wait` returns as soon as one is answered: ask line.now() whether the next is due"
LOOP = "count those sent and those answered: who is due by line.now(), and for what do you wait then?"


def reference_latencies(
    due: Sequence[int], service: Sequence[int], workers: int, pauses: Collection[Pause], refused: Collection[int], tick: int
) -> tuple[list[int], list[float]]:
    """The definition, without a queue of events: the time at which each request is sent, and its latency from its due time."""
    sent, took, busy = [], [], [0] * workers
    for number, (moment, work) in enumerate(zip(due, service)):
        at = math.ceil(moment / tick) * tick
        sent.append(at)
        if number in refused:
            took.append(math.inf)
            continue
        worker = busy.index(min(busy))
        begins = max(at, busy[worker])
        while inside := [ends for begun, ends in pauses if begun <= begins < ends]:
            begins = max(inside)
        busy[worker] = begins + work
        took.append(busy[worker] - moment)
    return sent, took


@stated("at most three calls of `line.wait` per request, and 10 more")
def check_open_loop(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `open_loop(due, line)` sends each request when it is due, and yields (number, latency from then)."""
    for case, due, service, options in _schedules(rng):
        options = {"workers": 1, "pauses": (), "refused": (), "tick": 1} | options
        sent, took = reference_latencies(due, service, **options)
        line = SimulatedLine(service, **options, most_waits=3 * len(due) + 10)
        found = call(_listed(answer), due, line, case=case, next_step=LOOP)
        where = f"due {_short(due)}, service {_short(service)}, " + ", ".join(f"{k} {v}" for k, v in options.items())
        _require_sent(line.sent, sent, case)
        _require_told([parts(each, "number, latency", case=case) for each in found], took, case, where)


def _listed(answer: Callable) -> Callable:
    def whole(due: Sequence[int], line: SimulatedLine) -> list:
        return list(itertools.islice(answer(due, line), 2 * len(due) + 1))

    return whole


def _require_sent(sent: dict[int, int], expected: list[int], case: str) -> None:
    for number, moment in enumerate(expected):
        if (when := sent.get(number)) != moment:
            early = when is not None and when < moment
            raise CheckFailed(
                f"Each request is sent when it is due, whether or not others were answered; here {case}.",
                expected=f"request {number} sent at {moment}",
                received="it was never sent" if when is None else f"sent at {when}",
                index=f"request {number} of {len(expected)}",
                next_step="`line.wait` returns as soon as one is answered: ask line.now() whether the next is due"
                if early
                else LOOP,
            )


def _require_told(told: list[tuple], expected: list[float], case: str, where: str) -> None:
    found: dict[int, object] = {}
    for number, latency in told:
        known = not isinstance(number, bool) and isinstance(number, numbers.Integral) and 0 <= number < len(expected)
        if not known or number in found:
            raise CheckFailed(
                f"Each request is yielded once, with its own number; here {case}.",
                expected=f"each of 0 to {len(expected) - 1} once",
                received=f"{number!r}, " + ("again" if known else "which is none"),
                next_step="yield what line.wait returned, with the number that stands beside it",
            )
        found[int(number)] = latency
    for number, latency in enumerate(expected):
        received = found.get(number)
        if isinstance(received, bool) or not isinstance(received, numbers.Real) or received != latency:
            raise CheckFailed(
                f"A latency counts from when the request was due to its answer; a refused one is endless; here {case}.",
                expected=latency,
                received="it was not yielded" if number not in found else received,
                index=f"request {number}; {where}",
                next_step="take the answer's own moment, less due[number]; answers may come in another order than requests",
            )


def _short(values: Sequence[int]) -> str:
    return str(list(values[:6]))[:-1] + (", ...]" if len(values) > 6 else "]")


def _schedules(rng: np.random.Generator):
    """The cases: (description, due, what each request takes, options of the simulated line)."""
    at, work = int(rng.integers(3, 900)), int(rng.integers(50, 99))
    yield "no request", [], [], {}
    yield "one request that is due at once", [0], [work], {}
    yield "one request that is due later", [at], [work], {}
    yield "two at the same moment", [at, at], [work, work + 1], {}
    yield "all at the same moment", [at] * 9, [work] * 9, {"workers": 2}
    yield "one that is due when another is answered", [at, at + work, at + work], [work] * 3, {}
    yield "a slow one that quick ones overtake", [at, at + 1, at + 2], [9 * work, work, 1], {"workers": 3}
    many = np.sort(rng.integers(0, 9_000, 60)).tolist()
    times = rng.integers(1, 300, 60).tolist()
    begins = int(rng.integers(2_000, 4_000))
    pause = [(begins, begins + int(rng.integers(2_500, 4_000)))]
    yield "a server that stalls", many, times, {"pauses": pause}
    yield "a server that stalls, with workers", many, times, {"pauses": pause, "workers": 4}
    yield "a server that stalls before the first request", many, times, {"pauses": [(0, 5_000)]}
    yield "a server that stalls twice", many, times, {"pauses": [*pause, (pause[0][1] + 1_000, pause[0][1] + 2_000)]}
    far = 30_000_000 + 2 * int(rng.integers(1, 9_000)) + 1
    yield "a stall of half a minute", many, times, {"pauses": [(begins, far)]}
    some = rng.choice(60, 12, replace=False).tolist()
    yield "a server that refuses some", many, times, {"refused": some}
    yield "a server that refuses all", many, times, {"refused": range(60)}
    yield "a server that refuses the last", many, times, {"refused": [59], "workers": 2}
    yield "a machine that wakes the generator late", many, times, {"tick": int(rng.integers(300, 700)), "workers": 2}
    yield "more than the server can answer", many, [400] * 60, {}
    yield "requests that are hours apart", [at, at + 3_600_000_000, at + 9_000_000_001], [work] * 3, {}
    for _ in range(30):
        count = int(rng.integers(1, 40))
        due = np.sort(rng.integers(0, 40 * count, count)).tolist()
        options = {
            "workers": int(rng.integers(1, 4)),
            "pauses": [(a, a + int(rng.integers(1, 900))) for a in rng.integers(0, 40 * count, 2).tolist()],
            "refused": rng.choice(count, int(rng.integers(0, 1 + count // 4)), replace=False).tolist(),
            "tick": int(rng.choice([1, 1, 7, 50])),
        }
        yield "a schedule by chance", due, rng.integers(1, 120, count).tolist(), options


class _Trial:
    """A server with a known capacity, up to which 99 % of the requests are within the limit; and noise.

    Args:
        noisy: at one of this many new rates, the first try fails at any rate; 0: never.
    """

    def __init__(self, capacity: float, within: float, count: int, noisy: int, rng: np.random.Generator):
        self.capacity, self.within, self.count, self.noisy, self.rng = capacity, within, count, noisy, rng
        self.tries: list[tuple[float, int, bool]] = []

    def __call__(self, rate: float, seed: int) -> list[float]:
        if isinstance(rate, bool) or not isinstance(rate, numbers.Real) or not rate >= 1:
            raise CtrlabError(f"A rate that is tried is a number from 1 on; this one is {rate!r}.")
        if rate >= 1e9:
            failed = [each for each, _, held in self.tries if not held]
            why = f"{failed[0]:.4g} per second failed, and was taken to hold" if failed else f"it has come to {rate:.4g}"
            raise CtrlabError(f"The search doubles without end; {why}.")
        if len(self.tries) > 200:
            raise CtrlabError("A search comes to an end; this one has made 200 runs.")
        rates = list(dict.fromkeys(each for each, *_ in self.tries))
        before = [seeds for each, seeds, _ in self.tries if each == rate]
        place = rates.index(rate) if before else len(rates)
        noise = bool(self.noisy) and place % self.noisy == 0 and (not before or seed == before[0])
        holds = rate <= self.capacity and not noise
        self.tries.append((rate, seed, holds))
        allowed = self.count * (100 - PERCENT) // 100
        slow = allowed if holds else allowed + 1
        in_time = self.rng.choice([self.within, self.within / 2, self.within / 9], self.count - slow)
        late = self.rng.choice([math.nextafter(self.within, math.inf), 9 * self.within, math.inf], slow)
        return self.rng.permutation(np.append(in_time, late)).tolist()


@stated("at most 8 rates, and one more for each doubling or halving between the first rate and what the server can do")
def check_most_within(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `most_within(run, within, rate)` -> the largest rate that held."""
    for case, start, capacity, within, count, noisy in _searches(rng):
        trial = _Trial(capacity, within, count, noisy, rng)
        where = f"the search begins at {start:g}, the server can do {capacity:.4g}, each run has {count} requests"
        found = call(answer, trial, within, start, case=case, next_step="run it by hand on a server that can do 100, from 30 on")
        rates = list(dict.fromkeys(rate for rate, *_ in trial.tries))
        if isinstance(found, bool) or not isinstance(found, numbers.Real) or not _right(found, trial, rates):
            tried = ", ".join(f"{rate:.4g} {'held' if held else 'failed'}" for rate, _, held in trial.tries[:12])
            raise CheckFailed(
                f"The search ends at a rate that held, while {PRECISION} times that rate is too much; here {case}.",
                expected=f"above {capacity / PRECISION:.4g}, at most {capacity:.4g}, and tried" if capacity >= 1 else 0,
                received=found,
                index=f"{where}; tried: {tried}",
                next_step="count how many of all are within the limit; try a rate that fails once more, with another seed",
            )
        _require_cheap(trial, rates, start, case, where)


def _right(found: float, trial: _Trial, rates: list[float]) -> bool:
    if trial.capacity < 1:
        return found == 0
    return found in rates and found <= trial.capacity <= PRECISION * found * (1 + 1e-9)


def _require_cheap(trial: _Trial, rates: list[float], start: float, case: str, where: str) -> None:
    """Requires that no rate is tried unnecessarily."""
    for rate in rates:
        results = [held for each, _, held in trial.tries if each == rate]
        if len(results) > 2 or any(results[:-1]) or (len(results) == 1 and not results[0]):
            raise CheckFailed(
                f"A rate that fails is tried once more, and one that held is not; here {case}.",
                expected="held, or failed and held, or failed twice",
                received=", ".join("held" if held else "failed" for held in results),
                index=f"at {rate:.4g} per second; {where}",
                next_step="leave the loop over two tries as soon as one has held",
            )
    steps = abs(math.log2(max(trial.capacity, 1) / start))
    if len(rates) > steps + 8:
        raise CheckFailed(
            f"Doubling finds the range, and halving the range finds the rate; here {case}.",
            expected=f"at most {int(steps + 8)} rates",
            received=f"{len(rates)} rates",
            index=where,
            next_step="double until one fails, or halve until one holds; then try one between, until they are close",
        )


def _searches(rng: np.random.Generator):
    """The cases: (description, first rate, capacity of the server, limit, requests per run, `noisy` of `_Trial`)."""
    start, within = float(rng.integers(20, 60)), float(rng.integers(3, 90))
    yield "a server that can do what is tried first", start, start, within, 100, 0
    yield "one just below what is tried first", start, 0.999 * start, within, 200, 0
    yield "one far beyond what is tried first", start, 300.3 * start, within, 100, 0
    yield "one that can do little", 40 * start, 1.5 * start, within, 300, 0
    yield "one that can do hardly more than 1", 40.0, 1.5, within, 100, 0
    yield "one that can do 1, and no more", 64.0, 1.0, within, 100, 0
    yield "one that can do nothing within the limit", start, 0.0, within, 100, 0
    yield "a number of requests that 100 does not divide", start, 5.1 * start, within, 250, 0
    yield "a noisy machine", start, 6.3 * start, within, 200, 1
    yield "a machine whose first run is noisy", start, 1.01 * start, within, 100, 50
    for _ in range(20):
        capacity = start * float(rng.uniform(0.2, 40))
        yield "a server by chance", start, capacity, within, int(rng.choice([100, 150, 400])), int(rng.integers(0, 4))


CHECKS = {1: check_open_loop, 2: check_most_within}
