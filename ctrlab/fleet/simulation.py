"""A machine of many cores on a simulated clock. Every pool of cores has one queue, first come, first served."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.fleet.curve import Load
from ctrlab.load.arrivals import poisson
from ctrlab.plain import Plain

WARM_UP = 0.1
"""The share of the time whose requests don't count: queues begin empty."""


@dataclass(frozen=True)
class Pool(Plain):
    """Cores that serve some of the models, each one request at a time."""

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
    """When requests come, by the clock of the simulation, and how many rows each has."""
    if load.per_second:
        due = poisson(load.per_second, seconds, seed=int(rng.integers(1 << 32)), most=sys.maxsize)
        yield from zip(due.tolist(), rng.choice(load.rows, len(due)).tolist())


@dataclass
class _Machine:
    cores: int
    busy: int = 0
    latencies: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # (when it came, what it took)

    def crowded(self) -> float:
        """The share of the cores beside one that are busy."""
        return (self.busy - 1) / max(1, self.cores - 1)


def simulate(
    pools: Sequence[Pool], loads: Mapping[str, Load], *, seconds: float, seed: int = 0, cores: int | None = None
) -> dict[str, np.ndarray]:
    """Seconds from each request's arrival to its answer, {model: float64 [requests]}.

    Args:
        loads: by model.
        seconds: of simulated time; what comes in the first `WARM_UP` of it does not count.
        cores: of the machine, among which contention spreads; None: those of the pools.
    Raises:
        CtrlabError: a model has no pool or two; or simpy is not installed.
    """
    require_pools(pools, loads)
    try:
        import simpy
    except ImportError:
        raise CtrlabError("The simulator needs the extra `fleet`; simpy is not installed: pip install 'ctrlab[fleet]'.") from None
    clock, rng = simpy.Environment(), np.random.default_rng(seed)
    machine = _Machine(cores or sum(pool.cores for pool in pools), latencies={model: [] for model in loads})

    def request(model: str, load: Load, rows: int, spread: float, turns, idle: list[str]) -> Iterator:
        came = clock.now
        with turns.request() as turn:
            waits = not turn.triggered
            yield turn
            served = model if model in idle else idle[0]
            idle.remove(served)
            machine.busy += 1
            took = load.curve.mean(rows) * spread + (load.curve.cold if served not in ("", model) else 0.0)
            took += 0.0 if waits else load.curve.idle
            yield clock.timeout(took * (1 + load.curve.crowding * machine.crowded()))
            machine.busy -= 1
            idle.append(model)
        machine.latencies[model].append((came, clock.now - came))

    def arrivals(model: str, load: Load, *pool) -> Iterator:
        for at, rows in arrivals_of(load, seconds, rng):
            yield clock.timeout(at - clock.now)
            spread = load.curve.spread[rng.integers(len(load.curve.spread))]
            clock.process(request(model, load, rows, spread, *pool))

    for pool in pools:
        turns, idle = simpy.Resource(clock, pool.cores), [""] * pool.cores  # what each idle core served last
        for model in pool.models:
            clock.process(arrivals(model, loads[model], turns, idle))
    clock.run()
    return {
        model: np.array([took for came, took in found if came >= WARM_UP * seconds]) for model, found in machine.latencies.items()
    }
