"""Measures the cost of one pool of threads for a whole machine, and estimates the gain of a session group on a larger machine.

A session splits a large op among the threads of its pool. Each part goes to another thread, which costs a lock, a wake-up and the
transfer of cache lines. A larger pool makes more parts, as far as its ops are large enough. So a request's CPU time grows with
the pool:

    cpu(t) = alone + part (min(t, most) - 1)

    alone    CPU seconds of a request on one thread
    part     more for each further part that its ops are split into
    most     parts, beyond which nothing is split

A busy machine of n cores answers n / cpu(n) requests per second from one pool, and n / cpu(1) from a group of n members with one
thread each. The group's gain is cpu(n) / cpu(1).

The pools are measured with more threads than this machine has cores. So the CPU time of passing work on is counted. The cost of
threads that take turns on a core is counted too, although it does not occur with one core per thread. Effects between cores are
not counted: shared caches and memory, and contention for locks. So the gain is an estimate.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.plain import Plain
from ctrlab.profiling.progress import track
from ctrlab.profiling.timing import paired

FITTED = (1, 2, 4, 16, 64)
HELD_OUT = (3, 8, 32)
"""Numbers of threads of the measured pools: those to which the constants are fitted, and those with which they are checked."""
CORES = (16, 32, 64, 128)
"""Numbers of cores of the machines for which a gain is estimated."""


@dataclass(frozen=True)
class Splitting(Plain):
    """The model's constants; see the module. `alone` and `part` in seconds."""

    alone: float
    part: float
    most: int

    def cpu(self, threads: int) -> float:
        """CPU seconds of a request in a pool of this number of threads."""
        return self.alone + self.part * (min(threads, self.most) - 1)

    def gain(self, cores: int) -> float:
        """A group's requests per second, divided by those of one pool, on this number of busy cores."""
        return self.cpu(cores) / self.alone


@dataclass(frozen=True)
class Pools(Plain):
    """CPU seconds of a request in pools of several sizes.

    Attributes:
        threads: number of threads of each pool.
        cpu: CPU seconds per request of each pool, one number per round; number i of all pools comes from round i.
    """

    threads: list[int]
    cpu: list[list[float]]

    def fitted(self) -> Splitting:
        """The constants, fitted to the pools in `FITTED` by least squares over their medians."""
        return fit({threads: cpu for threads, cpu in self._medians().items() if threads in FITTED})

    def errors(self) -> dict[int, float]:
        """{threads of a pool in `HELD_OUT`: relative error of the model, prediction / measurement - 1}."""
        model = self.fitted()
        return {threads: model.cpu(threads) / cpu - 1 for threads, cpu in self._medians().items() if threads in HELD_OUT}

    def _medians(self) -> dict[int, float]:
        return {threads: float(np.median(cpu)) for threads, cpu in zip(self.threads, self.cpu)}


def fit(cpu: Mapping[int, float]) -> Splitting:
    """The constants with the least squared relative error for {threads: CPU seconds of a request}. `most` is one of these numbers
    of threads.

    Raises:
        CtrlabError: fewer than three pools, or a time that is not above 0.
    """
    if len(cpu) < 3 or min(cpu.values()) <= 0:
        raise CtrlabError(f"Three constants need times above 0 of at least three pools; received {dict(cpu)}.")
    threads, seconds = np.array(list(cpu)), np.array(list(cpu.values()))
    found = []
    for most in sorted(cpu)[1:]:
        parts = np.minimum(threads, most) - 1
        system = np.stack([np.ones_like(seconds), parts], 1) / seconds[:, None]
        (alone, part), *_ = np.linalg.lstsq(system, np.ones_like(seconds), rcond=None)
        if part < 0:  # times that fall: then the best line that doesn't is level
            alone, part = np.sum(1 / seconds) / np.sum(1 / seconds**2), 0.0
        error = float(np.sum((system @ (alone, part) - 1) ** 2))
        found.append((error, most, Splitting(float(alone), float(part), int(most))))
    return min(found, key=lambda each: each[:2])[2]


def measure(
    pool: Callable[[int], contextlib.AbstractContextManager[Callable[[], object]]],
    busy: Callable[[Callable[[], object], float], float],
    seconds: float,
    rounds: int,
) -> Pools:
    """CPU seconds of a request in pools of `FITTED` and `HELD_OUT` threads.

    Args:
        pool: makes, for a number of threads, a context whose value is a function that asks.
        busy: asks on all cores for a number of seconds; returns requests per second.
        seconds: duration of each pool in a round.
    """
    with contextlib.ExitStack() as held:
        asks = {threads: held.enter_context(pool(threads)) for threads in sorted((*FITTED, *HELD_OUT))}

        def cpu(ask: Callable[[], object]) -> float:
            """Callers take about as long to begin and to end as one request does; that is counted on both sides."""
            before, start = time.process_time(), time.perf_counter()
            rate = busy(ask, seconds)
            return (time.process_time() - before) / (rate * (time.perf_counter() - start))

        found = paired({threads: lambda ask=ask: cpu(ask) for threads, ask in asks.items()}, track(range(rounds), "Pools"))
    return Pools(list(found), list(found.values()))
