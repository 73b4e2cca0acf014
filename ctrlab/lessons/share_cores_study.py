"""A machine of many cores that serves a main model and its A/B variants, for the lesson on sharing cores.

Service times come from curves that are measured on a core of this machine. Queues are the learner's own function.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctrlab.fleet import allocation, check, real
from ctrlab.fleet.allocation import chance_to_wait
from ctrlab.fleet.curve import Load, ServiceCurve
from ctrlab.fleet.experiments import Experiment
from ctrlab.fleet.simulation import Pool, arrivals_of
from ctrlab.profiles import Profile

MICROS = 1e6
MAIN, VARIANT = "deepfm", "dien"
ROWS = (50, 100, 200)
CORES = {"tiny": 64}
"""Of the simulated machine, by profile; others have `MOST_CORES`."""
MOST_CORES = 128
REQUESTS = {"tiny": 6_000}
MOST_REQUESTS = 30_000
PATIENCE = 2.0
BUSY = 0.3
"""The utilization of the two real cores."""

Latencies = Callable[[Sequence[int], Sequence[int], int], Sequence[int]]
"""(due, service, cores) -> how long each request takes, microseconds."""


class Measured:
    """Two served models in this process, and what a request costs a core.

    Attributes:
        main, variant: their curves.
        cores, requests: of the simulated machine, by the profile.
    """

    def __init__(self, profile: Profile):
        self.cores, self.requests = CORES.get(profile.name, MOST_CORES), REQUESTS.get(profile.name, MOST_REQUESTS)
        self._seconds = 2.0 if profile.name == "tiny" else 15.0
        with contextlib.ExitStack() as held:
            self._asks = held.enter_context(check.served((MAIN, VARIANT), ROWS, profile.name))
            repetitions = 10 * profile.repetitions
            self.main, self.variant = (
                real.measure_curve(self._asks[name], ROWS, other=self._asks[other], repetitions=repetitions)
                for name, other in ((MAIN, VARIANT), (VARIANT, MAIN))
            )
            self._held = held.pop_all()

    def machine(self, **options) -> Machine:
        """The simulated machine; options as of `Experiment`."""
        loads = Experiment(**options).loads(*(replace(curve, crowding=0.0, cold=0.0) for curve in (self.main, self.variant)))
        return Machine(loads, self.cores, self.requests)

    def on_two_cores(self, latencies: Latencies, together: bool) -> dict[str, float]:
        """{model: its mean latency by the queue over that on two real cores}, which are busy for `BUSY` of the time.

        Cores slow each other down. So the queue's service times are those of a core beside one that is busy as often.
        """
        slowed = {
            model: replace(curve, fixed=curve.fixed * by, per_row=curve.per_row * by)
            for model, curve in {MAIN: self.main, VARIANT: self.variant}.items()
            for by in [1 + curve.crowding * BUSY]
        }
        loads = check.loads_of(slowed, BUSY, apart=not together)
        loads = {model: replace(load, rows=ROWS) for model, load in loads.items()}
        pools = [Pool(2, (MAIN, VARIANT))] if together else [Pool(1, (MAIN,)), Pool(1, (VARIANT,))]
        took = real.run(pools, loads, self._asks, seconds=self._seconds)
        made = Machine(loads, 2, MOST_REQUESTS).simulated(latencies, pools, BUSY)
        return {model: float(np.mean(made[model]) / MICROS / np.mean(took[model])) for model in loads}

    def close(self) -> None:
        self._held.close()


@dataclass(frozen=True)
class Machine:
    """Models' loads on one core's worth of work, and the machine that gets them.

    Attributes:
        loads: {model: its requests}; the first is the main model.
        requests: drawn in all.
    """

    loads: Mapping[str, Load]
    cores: int
    requests: int

    @property
    def main(self) -> str:
        return next(iter(self.loads))

    def limit(self, model: str) -> float:
        """Microseconds in which 99 of 100 are to be answered: `PATIENCE` times what 99 of 100 take without a queue."""
        load = self.loads[model]
        alone = np.outer([load.curve.mean(rows) for rows in load.rows], load.curve.spread)
        return PATIENCE * MICROS * float(np.percentile(alone, 99))

    def busy(self, load: float) -> dict[str, float]:
        """{model: the cores that it keeps busy}, if all of them together keep a share `load` of the machine busy."""
        factor = load * self.cores / sum(each.work for each in self.loads.values())
        return {model: factor * each.work for model, each in self.loads.items()}

    def drawn(self, load: float, slow: float = 1.0) -> dict[str, tuple[list[int], list[int]]]:
        """{model: due and service of its requests, microseconds}.

        Args:
            slow: the last variant takes so many times as long.
        """
        factor = load * self.cores / sum(each.work for each in self.loads.values())
        per_second = factor * sum(each.per_second for each in self.loads.values())
        rng, found = np.random.default_rng(0), {}
        for model, each in self.loads.items():
            came = list(arrivals_of(each.times(factor), self.requests / per_second, rng))
            due = [round(MICROS * at) for at, _ in came]
            spread = rng.choice(each.curve.spread, len(came)) * (slow if model == list(self.loads)[-1] else 1.0)
            found[model] = due, [round(MICROS * each.curve.mean(rows) * s) for (_, rows), s in zip(came, spread)]
        return found

    def simulated(self, latencies: Latencies, pools: Sequence[Pool], load: float, slow: float = 1.0) -> dict[str, np.ndarray]:
        """{model: how long each of its requests took, microseconds}; one queue per pool."""
        drawn, found = self.drawn(load, slow), {}
        for pool in pools:
            merged = sorted((at, work, model) for model in pool.models for at, work in zip(*drawn[model]))
            took = latencies([at for at, *_ in merged], [work for _, work, _ in merged], pool.cores)
            names = np.array([model for *_, model in merged])
            found |= {model: np.array(took, float)[names == model] for model in pool.models}
        return found

    def p99s(self, latencies: Latencies, pools: Sequence[Pool], load: float, slow: float = 1.0) -> dict[str, float]:
        """{"main" and "variants": p99 over the limit}; of the variants, that of the worst."""
        found = self.simulated(latencies, pools, load, slow)
        over = {model: float(np.percentile(took, 99)) / self.limit(model) for model, took in found.items() if len(took)}
        return {"main": over.pop(self.main), "variants": max(over.values())}

    def main_p99(self, latencies: Latencies, load: float) -> Callable[[int], float]:
        """n -> the main model's p99 on n cores of its own, microseconds."""
        due, service = self.drawn(load)[self.main]
        return lambda n: float(np.percentile(latencies(due, service, n), 99))

    def pools(self, policy: str, load: float) -> list[Pool]:
        """Of the package's policy "split" or "shared" for such a load."""
        factor = load * self.cores / sum(each.work for each in self.loads.values())
        return allocation.POLICIES[policy]({model: each.times(factor) for model, each in self.loads.items()}, self.cores)

    def dedicated(self, main_cores: Callable, latencies: Latencies, load: float) -> list[Pool] | None:
        """Pools by the learner's rule; None where that finds none."""
        busy = self.busy(load)
        others = [model for model in self.loads if model != self.main]
        own = main_cores(self.main_p99(latencies, load), self.limit(self.main), sum(busy[model] for model in others), self.cores)
        return None if own is None else [Pool(own, (self.main,)), Pool(self.cores - own, tuple(others))]

    def most(self, latencies: Latencies, pools: Callable[[float], list[Pool] | None]) -> float:
        """The largest share of the machine's cores that is busy while every model is within its limit, in steps of 1/32."""
        low, high = 0, 32
        while high - low > 1:
            middle = (low + high) // 2
            made = pools(middle / 32)
            fits = made is not None and max(self.p99s(latencies, made, middle / 32).values()) <= 1
            low, high = (middle, high) if fits else (low, middle)
        return low / 32


def waits(cores: int, utilization: float) -> float:
    """The mean wait for one of so many cores, in mean service times, if both gaps and service times are exponential (M/M/c)."""
    return chance_to_wait(cores, cores * utilization) / (cores * (1 - utilization))


def random_calls(cores: int, utilization: float, count: int) -> tuple[list[int], list[int]]:
    """Due and service of requests whose gaps and service times are exponential; a service takes 1,000 on average."""
    rng = np.random.default_rng(1)
    due = np.cumsum(rng.exponential(1_000 / (cores * utilization), count))
    return np.rint(due).astype(int).tolist(), np.rint(rng.exponential(1_000, count)).astype(int).tolist()


def line(curve: ServiceCurve, rows: Sequence[int]) -> list[float]:
    """Microseconds of a request of so many rows."""
    return [MICROS * curve.mean(n) for n in rows]
