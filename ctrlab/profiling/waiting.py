"""How long a call waits for what others do: a thread makes it again and again, and a control thread only reads the clock.

    lookups   sleep `period`, call, take its time, again
    control   sleep `period`, take how much later than that it is, again: what the machine and Python's own lock make any thread
              wait
    behind    the thread calls only after its last call returned, so it meets a stall once, however long the stall is. Calls that
              others would have made meanwhile, one each period, wait for the rest: they count, too (as HdrHistogram's expected
              interval does)

This file refuses to know what is called and what goes on meanwhile.
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
"""Seconds between two calls: some 1,000 calls a second leave a core most of its time."""
SWITCH = 0.0001
"""Seconds after which Python's lock goes to a thread that waits for it; by default 5 ms, more than what is measured."""
AT_LEAST = 0.2
"""Seconds that are watched, however short the work: no call might meet a shorter one."""


@dataclass(frozen=True)
class Watch:
    """What two threads saw while something went on.

    Attributes:
        calls: float64 [n, 2]: when a call began, seconds from the beginning, and how long it took.
        control: float64 [m, 2]: when, and how much later than asked the control thread woke up.
        work: seconds that what went on took; the threads watched until the last of its traces.
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
    """What calls waited while something went on, and while nothing did, one right after the other."""

    quiet: Watch
    busy: Watch

    @property
    def ratio(self) -> float:
        """How many times the quiet 99th percentile the other is."""
        return self.busy.percentile(99) / self.quiet.percentile(99)

    @property
    def beyond_control(self) -> float:
        """Seconds by which the longest call was longer than what the control thread waited at most; below 0 where it was not."""
        return self.busy.longest - self.busy.longest_control


@dataclass(frozen=True)
class Waits:
    """One kind of call, watched in several rounds.

    Attributes:
        title: what was called, on what.
        rounds: for each, {what went on: Pair}.
        own: seconds of a call that has nothing to do: the caller's own share of each.
        asked: by what went on, the most that the ratio of 99th percentiles and the seconds beyond the control should be.
        facts: other figures that say whether the measurement means anything.
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
        """In the worst round."""
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
    """The calls' seconds, and for each longer one the waits of those that would have come meanwhile.

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
    """Watches `call` from a thread of its own while this one does `work`, and until the last traces of that.

    Args:
        ended: waits until nothing goes on any more; returns when, by `timing.now`, something last did.
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
        except BaseException as problem:  # a thread's own would only be printed
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
