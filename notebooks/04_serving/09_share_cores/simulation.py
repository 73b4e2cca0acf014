"""A machine of many cores on a simulated clock. Every pool of cores has one queue, first come, first served."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from ctrlab.lessons.topics.share_cores.curve import Load

from ctrlab.errors import CtrlabError
from ctrlab.load.arrivals import poisson
from ctrlab.load.queueing import Queue, run
from ctrlab.plain import Plain

WARM_UP = 0.1
"""The fraction of the time, at its start, whose requests don't count, because queues begin empty."""


@dataclass(frozen=True)
class Pool(Plain):
    """Cores that serve some of the models. Each core works on one request at a time."""

    cores: int
    models: tuple[str, ...]


def require_pools(pools: Sequence[Pool], loads: Mapping[str, Load]) -> None:
    """Raises CtrlabError unless each model has one pool, and each pool a core."""
    served = [model for pool in pools for model in pool.models]
    if sorted(served) != sorted(loads) or any(pool.cores < 1 for pool in pools):
        raise CtrlabError(
            f"Each model is served by one pool of at least one core; received the models {', '.join(loads)} and the pools "
            f"{', '.join(f'{pool.cores} of {pool.models}' for pool in pools)}."
        )


def arrivals_of(load: Load, seconds: float, rng: np.random.Generator) -> Iterator[tuple[float, int]]:
    """The arrival times of requests, in seconds of the simulation, and the number of rows of each."""
    if load.per_second:
        due = poisson(load.per_second, seconds, seed=int(rng.integers(1 << 32)), most=sys.maxsize)
        yield from zip(due.tolist(), rng.choice(load.rows, len(due)).tolist())


def simulate(
    pools: Sequence[Pool], loads: Mapping[str, Load], *, seconds: float, seed: int = 0, cores: int | None = None
) -> dict[str, np.ndarray]:
    """Seconds from each request's arrival to its answer, {model: float64 [requests]}.

    Args:
        loads: the load of each model.
        seconds: simulated time; requests of its first part, `WARM_UP`, do not count.
        cores: number of cores of the machine, over which contention spreads; None: those of the pools.
    Raises:
        CtrlabError: a model has no pool or two.
    """
    require_pools(pools, loads)
    rng, others = np.random.default_rng(seed), max(1, (cores or sum(pool.cores for pool in pools)) - 1)
    busy = 0
    """Number of busy cores, over all pools."""

    def queue_of(pool: Pool) -> tuple[Queue, list[str]]:
        idle = [""] * pool.cores  # what each idle core served last

        def length(batch: list[_Request], now: float) -> float:
            nonlocal busy
            ((came, model, rows, spread),) = batch
            curve, served = loads[model].curve, model if model in idle else idle[0]
            idle.remove(served)
            took = curve.mean(rows) * spread + (curve.cold if served not in ("", model) else 0.0)
            took += 0.0 if now > came else curve.idle
            took *= 1 + curve.crowding * busy / others
            busy += 1
            return took

        return Queue(pool.cores, length), idle

    def of_model(model: str, queue: Queue) -> Iterator[tuple[float, Queue, str, int]]:
        yield from ((at, queue, model, rows) for at, rows in arrivals_of(loads[model], seconds, rng))

    def arrivals() -> Iterator[tuple[float, Queue, _Request]]:
        streams = [of_model(model, queue) for pool, queue in zip(pools, idle_of) for model in pool.models]
        for at, queue, model, rows in heapq.merge(*streams, key=lambda each: each[0]):
            spread = loads[model].curve.spread
            yield at, queue, _Request(at, model, rows, spread[rng.integers(len(spread))])

    idle_of = dict(queue_of(pool) for pool in pools)
    latencies: dict[str, list[float]] = {model: [] for model in loads}
    for queue, call in run(arrivals()):
        (request,) = call.batch
        busy -= 1
        idle_of[queue].append(request.model)
        if request.came >= WARM_UP * seconds:
            latencies[request.model].append(call.ends - request.came)
    return {model: np.array(found) for model, found in latencies.items()}


class _Request(NamedTuple):
    """A request: its arrival time, its model, its number of rows, and the factor by which its time differs from the mean."""

    came: float
    model: str
    rows: int
    spread: float
