"""The same pools and the same load as in the simulation, on real cores: curves are measured here, and the simulation is checked.

Each core of a pool is a thread that is bound to one CPU. The function that it calls must release Python's global lock, as
`Processor.process` does.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from ctrlab.lessons.topics.share_cores.curve import Load, ServiceCurve
from ctrlab.lessons.topics.share_cores.simulation import WARM_UP, Pool, arrivals_of, require_pools

from ctrlab.errors import CtrlabError
from ctrlab.load.arrivals import paced
from ctrlab.profiling.timing import now, paired, timed

REST_SECONDS = 1e-3
"""Seconds for which a core has no work when `ServiceCurve.idle` is measured: about as long as a half-busy core waits for a
request.
"""

Ask = Callable[[int], object]
"""A function that makes a model answer a request with this number of rows."""


def run(
    pools: Sequence[Pool], loads: Mapping[str, Load], asks: Mapping[str, Ask], *, seconds: float, seed: int = 0
) -> dict[str, np.ndarray]:
    """Like `simulate`, in real time: seconds from the due time of each request to its answer, {model: float64 [requests]}.

    Raises:
        CtrlabError: a model has no pool or two; or the process may use fewer CPUs than the pools have cores.
    """
    require_pools(pools, loads)
    cpus = sorted(os.sched_getaffinity(0))
    if (wanted := sum(pool.cores for pool in pools)) > len(cpus):
        raise CtrlabError(f"A core of a pool is a CPU that this process may use; received {wanted} cores for {len(cpus)} CPUs.")
    latencies: dict[str, list[tuple[float, float]]] = {model: [] for model in loads}
    queues = {model: waiting for pool in pools for waiting in [queue.SimpleQueue()] for model in pool.models}

    def core(waiting: queue.SimpleQueue, cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})  # of this thread
        while (request := waiting.get()) is not None:
            model, due, rows = request
            asks[model](rows)
            latencies[model].append((due, now() - due))

    free = iter(cpus)
    with ThreadPoolExecutor(wanted) as threads:
        work = [threads.submit(core, queues[pool.models[0]], next(free)) for pool in pools for _ in range(pool.cores)]
        rng = np.random.default_rng(seed)
        streams = [[(at, model, rows) for at, rows in arrivals_of(load, seconds, rng)] for model, load in loads.items()]
        coming = list(heapq.merge(*streams))
        begun = now()
        for number, due in paced((at for at, _, _ in coming), begun):
            _, model, rows = coming[number]
            queues[model].put((model, due, rows))
        for pool in pools:
            for _ in range(pool.cores):
                queues[pool.models[0]].put(None)
        for each in work:
            each.result()
    kept = begun + WARM_UP * seconds
    return {model: np.array([took for due, took in found if due >= kept]) for model, found in latencies.items()}


def measure_curve(ask: Ask, rows: Sequence[int], *, other: Ask | None = None, repetitions: int = 200) -> ServiceCurve:
    """The curve of a model, from requests one after the other on one CPU.

    Args:
        rows: the numbers of rows per request that are measured, in random order.
        other: asks another model: before a request, to measure `cold`, and on all other CPUs, to measure `crowding`, with the
            middle number of `rows`. None: these two and `idle` are 0.
    """
    middle, cpus = sorted(rows)[len(rows) // 2], sorted(os.sched_getaffinity(0))
    with _bound(cpus[0]):
        for n in rows:  # the first calls of a size make room for its arrays
            ask(n)
        found = paired({n: lambda n=n: _seconds(ask, n) for n in rows}, range(repetitions))
        if other is None:
            return ServiceCurve.fit(found)
        idle = paired({"warm": lambda: _after(ask, ask, middle), "idle": lambda: _rested(ask, middle)}, range(repetitions))
        cold = paired({"warm": lambda: _after(ask, ask, middle), "cold": lambda: _after(other, ask, middle)}, range(repetitions))
        with _worker(other, middle, cpus[1:]) as beside:
            crowded = paired({"alone": lambda: _after(ask, ask, middle), "beside": lambda: beside(ask)}, range(repetitions))
    slower = np.median(crowded["beside"]) / np.median(crowded["alone"]) - 1
    more = {"cold": _more(cold["cold"], cold["warm"]), "idle": _more(idle["idle"], idle["warm"])}
    return ServiceCurve.fit(found, **more, crowding=max(0.0, float(slower)))


def _more(slow: Sequence[float], quick: Sequence[float]) -> float:
    return max(0.0, float(np.median(slow) - np.median(quick)))


def _rested(ask: Ask, rows: int) -> float:
    ask(rows)
    time.sleep(REST_SECONDS)
    return _seconds(ask, rows)


def _seconds(ask: Ask, rows: int) -> float:
    return timed(lambda: ask(rows))[0]


def _after(first: Ask, ask: Ask, rows: int) -> float:
    first(rows)
    return _seconds(ask, rows)


@contextlib.contextmanager
def _bound(cpu: int) -> Iterator[None]:
    """A context in which this thread runs on one CPU; afterwards it may use the same CPUs as before."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def _worker(other: Ask, rows: int, cpus: Sequence[int]) -> Iterator[Callable[[Ask], float]]:
    """Yields a function that times a call while other CPUs answer requests of the other model; without another model it times
    the call alone.
    """
    goes, ends = threading.Event(), threading.Event()

    def work(cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})
        while not ends.is_set():
            if goes.wait(0.1):
                other(rows)

    def beside(ask: Ask) -> float:
        goes.set()
        try:
            return _after(ask, ask, rows)
        finally:
            goes.clear()

    with ThreadPoolExecutor(len(cpus) or 1) as threads:
        work_of = [threads.submit(work, cpu) for cpu in cpus]
        try:
            yield beside
        finally:
            ends.set()
            goes.set()
            for each in work_of:
                each.result()
