"""What one pool of threads for a whole machine costs, and what a session group would gain on a machine larger than this one.

A session splits a large op among the threads of its pool. Each part is handed to another thread: a lock, a wake-up, cache lines
that move. A larger pool makes more parts, up to as many as its ops are large enough for. So a request's CPU time grows with it:

    cpu(t) = alone + part (min(t, most) - 1)

    alone    CPU seconds of a request on one thread
    part     more for each further part that its ops are split into
    most     parts, beyond which nothing is split

A busy machine of n cores answers n / cpu(n) requests per second from one pool, and n / cpu(1) from a group of n members with one
thread each. The group's gain is cpu(n) / cpu(1).

The pools are measured with more threads than this machine has cores. So the CPU time of handing over is counted, and so is what
threads cost that take turns on a core, which they need not where there is a core for each. What cores do to each other is not
counted: caches and memory that more of them share, locks that more of them want at once. So the gain is an estimate.
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
"""Threads of the pools that are measured: those that the constants are of, and those that they are checked with."""
CORES = (16, 32, 64, 128)
"""Cores of the machines for which a gain is estimated."""


@dataclass(frozen=True)
class Splitting(Plain):
    """The model's constants; see the module. `alone` and `part` in seconds."""

    alone: float
    part: float
    most: int

    def cpu(self, threads: int) -> float:
        """CPU seconds of a request in a pool of so many threads."""
        return self.alone + self.part * (min(threads, self.most) - 1)

    def gain(self, cores: int) -> float:
        """A group's requests per second over those of one pool, on so many busy cores."""
        return self.cpu(cores) / self.alone


@dataclass(frozen=True)
class Pools(Plain):
    """CPU seconds of a request in pools of several sizes.

    Attributes:
        threads: of each pool.
        cpu: of each pool, one number a round; number i of all pools is of round i.
    """

    threads: list[int]
    cpu: list[list[float]]

    def fitted(self) -> Splitting:
        """The constants of the pools in `FITTED`, by least squares over their medians."""
        return fit({threads: cpu for threads, cpu in self._medians().items() if threads in FITTED})

    def errors(self) -> dict[int, float]:
        """{threads of a pool in `HELD_OUT`: what the model says over what was measured, less 1}."""
        model = self.fitted()
        return {threads: model.cpu(threads) / cpu - 1 for threads, cpu in self._medians().items() if threads in HELD_OUT}

    def _medians(self) -> dict[int, float]:
        return {threads: float(np.median(cpu)) for threads, cpu in zip(self.threads, self.cpu)}


def fit(cpu: Mapping[int, float]) -> Splitting:
    """The constants with the least squared relative error, {threads: CPU seconds of a request}; `most` is one of the threads.

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
        pool: of so many threads: a context with a function that asks.
        busy: asks with all cores for so many seconds; returns requests per second.
        seconds: of each pool in a round.
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
