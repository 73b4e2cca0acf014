"""Measures how long calls wait for background work: a thread repeats a call while a control thread only reads the clock.

    lookups   repeat: sleep for `period`, then time a call
    control   repeat: sleep for `period`, then measure how late the thread woke; this is the delay that the machine and the GIL
              cause for any thread
    behind    the thread calls again only after its last call returned, so it meets a stall once, however long the stall is.
              Calls that would have started meanwhile, one per period, would wait for the rest of the stall. They are counted
              too, like HdrHistogram's correction for coordinated omission

This file knows neither what is called nor what the background work is.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ctrlab.profiling.timing import WARM_UPS, Interval, now

PERIOD = 0.001
"""Seconds between two calls: with about 1,000 calls per second a core is mostly idle."""
SWITCH = 0.0001
"""Interval in seconds after which a thread must release the GIL; the default of 5 ms exceeds what is measured."""
AT_LEAST = 0.2
"""Minimum seconds to watch, however short the work is: otherwise no call might overlap with it."""


@dataclass(frozen=True)
class Watch:
    """What two threads measured during some background work.

    Attributes:
        calls: float64 [n, 2]: start of each call, in seconds since the beginning, and its duration.
        control: float64 [m, 2]: time and delay of each wake-up of the control thread.
        work: duration of the work in seconds; the threads watch until its last effects have ended.
    """

    calls: np.ndarray
    control: np.ndarray
    work: float

    def percentile(self, q: float) -> float:
        return float(np.percentile(behind(self.calls[:, 1]), q))

    @property
    def longest(self) -> float:
        return float(self.calls[:, 1].max())

    @property
    def longest_control(self) -> float:
        return float(self.control[:, 1].max())

    def to_json(self) -> dict:
        microseconds = {name: np.round(1e6 * getattr(self, name)).astype(int).tolist() for name in ("calls", "control")}
        return {"work": self.work, "microseconds": microseconds}


@dataclass(frozen=True)
class Pair:
    """Calls during some work, and calls while idle, measured one right after the other."""

    quiet: Watch
    busy: Watch

    @property
    def ratio(self) -> float:
        """The p99 during the work over the p99 while idle."""
        return self.busy.percentile(99) / self.quiet.percentile(99)

    @property
    def beyond_control(self) -> float:
        """Seconds by which the longest call exceeds the control thread's longest delay; negative if it does not."""
        return self.busy.longest - self.busy.longest_control


@dataclass(frozen=True)
class Waits:
    """One kind of call, watched in several rounds.

    Attributes:
        title: the call and its object.
        rounds: for each round, {name of the work: Pair}.
        own: seconds of an empty call: the caller's own overhead.
        asked: {name of the work: upper limits}, for the ratio of p99 times and for the seconds beyond the control.
        facts: other numbers that show whether the measurement is meaningful.
    """

    title: str
    rounds: list[dict[str, Pair]]
    own: float
    asked: dict[str, tuple[float, float]]
    facts: dict[str, float]

    @property
    def phases(self) -> list[str]:
        return list(self.rounds[0])

    def pairs(self, phase: str) -> list[Pair]:
        return [each[phase] for each in self.rounds]

    def ratio(self, phase: str) -> Interval:
        return Interval.of([pair.ratio for pair in self.pairs(phase)])

    def beyond_control(self, phase: str) -> float:
        """The value of the worst round."""
        return max(pair.beyond_control for pair in self.pairs(phase))

    def to_json(self) -> dict:
        rounds = [
            {phase: {"quiet": pair.quiet.to_json(), "busy": pair.busy.to_json()} for phase, pair in each.items()}
            for each in self.rounds
        ]
        ratios = {phase: self.ratio(phase).median for phase in self.phases}
        beyond = {phase: self.beyond_control(phase) for phase in self.phases}
        return {"title": self.title, "own": self.own, "ratios": ratios, "beyond_control": beyond, **self.facts, "rounds": rounds}


def behind(seconds: Sequence[float], period: float = PERIOD) -> np.ndarray:
    """The calls' durations, and for each long call the waits of the calls that would have started meanwhile.

    >>> behind([0.001, 0.0035], period=0.001).tolist()
    [0.001, 0.0035, 0.0025, 0.0015]
    """
    seconds = np.asarray(seconds, np.float64)
    more = [seconds]
    waiting = seconds - period
    while (waiting := waiting[waiting >= period]).size:
        more.append(waiting)
        waiting = waiting - period
    return np.concatenate(more)


def watch(call: Callable[[], object], work: Callable[[], object], ended: Callable[[], float] = now) -> Watch:
    """Watches `call` in a separate thread while this thread runs `work`, and until its last effects have ended.

    Args:
        ended: waits until the work's effects have ended; returns the time of the last effect, by `timing.now`.
    Raises:
        What `call`, `work` or `ended` raises.
    """
    over, begin, problems = threading.Event(), now(), []
    calls: list[tuple[float, float]] = []
    control: list[tuple[float, float]] = []

    def repeat(once: Callable[[], None]) -> None:
        try:
            while not over.is_set():
                once()
        except BaseException as problem:  # an uncaught exception in a thread would only be printed
            problems.append(problem)

    def one_call() -> None:
        time.sleep(PERIOD)
        start = now()
        call()
        calls.append((start - begin, now() - start))

    def one_look() -> None:
        start = now()
        time.sleep(PERIOD)
        control.append((start - begin, now() - start - PERIOD))

    threads = [threading.Thread(target=repeat, args=(once,), daemon=True) for once in (one_call, one_look)]
    interval, collecting = sys.getswitchinterval(), gc.isenabled()
    for _ in range(WARM_UPS):
        call()
    sys.setswitchinterval(SWITCH)
    gc.disable()
    try:
        for thread in threads:
            thread.start()
        start = now()
        work()
        worked = now()
        last = max(worked, ended(), begin + AT_LEAST)
        time.sleep(max(0.0, last - now()))
    finally:
        over.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
        if collecting:
            gc.enable()
    if problems:
        raise problems[0]
    seen = [np.array(samples, np.float64).reshape(-1, 2) for samples in (calls, control)]
    return Watch(*(samples[samples[:, 0] <= last - begin] for samples in seen), worked - start)
