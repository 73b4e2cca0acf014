"""A machine of many cores that serves a main model and its A/B variants, for the lesson on sharing cores.

Service times come from curves that are measured on a core of this machine. Queues are the learner's own function. Cores slow each
other down by as much as on average: the busier the machine is, the longer each request takes. `simulation` has that,
and cold caches, from moment to moment.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from ctrlab.lessons.topics.share_cores import allocation, real_cores, served
from ctrlab.lessons.topics.share_cores.curve import Load, ServiceCurve
from ctrlab.lessons.topics.share_cores.experiment import Experiment
from ctrlab.lessons.topics.share_cores.simulation import WARM_UP, Pool, arrivals_of

from ctrlab.load.erlang import chance_to_wait
from ctrlab.profiles import Profile

MICROS = 1e6
MAIN, VARIANT = "deepfm", "dien"
ROWS = tuple(sorted({*served.MEASURED, *served.CHECKED}))
"""Numbers of candidates of the real requests: curves are measured with some, and two real cores get others."""
CORES = {"tiny": 64}
"""{profile: number of cores of the simulated machine}; other profiles have `MOST_CORES`."""
MOST_CORES = 128
REQUESTS = {"tiny": 12_000}
MOST_REQUESTS = 120_000
PATIENCE = 2.0
SLOWEST = 0.05
"""The fraction of slowest measured times that is left out, because other work on this machine mostly causes them."""
BUSY = 0.3
"""The utilization of the two real cores."""
PARTS = 5
"""The number of parts into which the time on two real cores is divided."""

Latencies = Callable[[Sequence[int], Sequence[int], int], Sequence[int]]
"""(due, service, cores) -> how long each request takes, microseconds."""
Policy = Callable[[float], list[Pool] | None]
"""(load) -> the pools of a machine with this share of busy cores; None: the machine is too small."""


class Measured:
    """Two served models in this process, and the time of a request on a core.

    Attributes:
        main, variant: their curves.
        cores, requests: numbers of cores and requests of the simulated machine, by the profile.
    """

    def __init__(self, profile: Profile):
        self.cores, self.requests = CORES.get(profile.name, MOST_CORES), REQUESTS.get(profile.name, MOST_REQUESTS)
        self._seconds = 2.0 if profile.name == "tiny" else 15.0
        with contextlib.ExitStack() as held:
            self._asks = held.enter_context(served.served((MAIN, VARIANT), ROWS, profile.name))
            self.main, self.variant = (self._curve(*names, profile) for names in ((MAIN, VARIANT), (VARIANT, MAIN)))
            self._held = held.pop_all()

    def _curve(self, model: str, other: str, profile: Profile) -> ServiceCurve:
        asks, repetitions = self._asks, 10 * profile.repetitions
        return undisturbed(real_cores.measure_curve(asks[model], served.MEASURED, other=asks[other], repetitions=repetitions))

    def took(self, candidates: int, others_busy: float) -> dict[str, float]:
        """{curve: microseconds of a request} on a core beside others, of which this share is busy."""
        curves = {"main": self.main.beside(others_busy), "variant": self.variant.beside(others_busy)}
        means = {name: MICROS * curve.mean(candidates) for name, curve in curves.items()}
        return means | {f"{name}, p99": means[name] * float(np.percentile(curve.spread, 99)) for name, curve in curves.items()}

    def machine(self, *, cores: int | None = None, crowding: float = 0.0, **options) -> Machine:
        """The simulated machine.

        Args:
            cores: None: by the profile. crowding: factor on the measured slowdown between cores.
            options: as in `Experiment`.
        """
        loads = Experiment(crowding=crowding, **options).loads(self.main, self.variant)
        return Machine({model: limited(load) for model, load in loads.items()}, cores or self.cores, self.requests)

    def on_two_cores(self, latencies: Latencies, together: bool) -> dict[str, float]:
        """{model: its mean latency by the queue, divided by that on two real cores}, which are busy for `BUSY` of the time.

        The real one is the median of the means of `PARTS` of the time: where something else stalls the machine, it spoils a part.
        """
        curves = {MAIN: self.main.beside(BUSY), VARIANT: self.variant.beside(BUSY)}
        loads = served.loads_of(curves, BUSY, apart=not together)
        pools = [Pool(2, (MAIN, VARIANT))] if together else [Pool(1, (MAIN,)), Pool(1, (VARIANT,))]
        took = real_cores.run(pools, loads, self._asks, seconds=self._seconds)
        made = Machine(loads, 2, MOST_REQUESTS).simulated(latencies, pools, BUSY)
        means = {model: np.median([part.mean() for part in np.array_split(took[model], PARTS)]) for model in loads}
        return {model: float(np.mean(made[model]) / MICROS / means[model]) for model in loads}

    def close(self) -> None:
        self._held.close()


def undisturbed(curve: ServiceCurve) -> ServiceCurve:
    """The curve without the slowest times, the fraction `SLOWEST`, and without effects that the learner's queue does not
    model: cold and idle cores.
    """
    kept = np.sort(curve.spread)[: math.ceil((1 - SLOWEST) * len(curve.spread))]
    by = float(kept.mean())
    return ServiceCurve(curve.fixed * by, curve.per_row * by, crowding=curve.crowding, spread=tuple((kept / by).tolist()))


def limited(load: Load) -> Load:
    """A load whose limit is `PATIENCE` times the time in which 99 of 100 requests are answered without a queue."""
    alone = np.outer([load.curve.mean(rows) for rows in load.rows], load.curve.spread)
    return replace(load, within=PATIENCE * float(np.percentile(alone, 99)))


@dataclass(frozen=True)
class Machine:
    """The models' loads, scaled to one busy core, and the machine that gets them.

    Attributes:
        loads: {model: its requests}; the first is the main model.
        requests: total number of drawn requests.
    """

    loads: Mapping[str, Load]
    cores: int
    requests: int

    @property
    def main(self) -> str:
        return next(iter(self.loads))

    def limit(self, model: str) -> float:
        """Microseconds within which 99 of 100 requests must be answered."""
        return MICROS * self.loads[model].within

    def at(self, load: float) -> dict[str, Load]:
        """The loads, if all of them together would keep a share `load` of the machine busy; its cores slow each other down."""
        factor = load * self.cores / sum(each.work for each in self.loads.values())
        return {model: replace(each.times(factor), curve=each.curve.beside(load)) for model, each in self.loads.items()}

    def drawn(self, load: float, slow: float = 1.0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """{model: due and service of its requests, whole microseconds}.

        Args:
            slow: factor on the last variant's times.
        """
        loads, rng, found = self.at(load), np.random.default_rng(0), {}
        seconds = self.requests / sum(each.per_second for each in loads.values())
        for model, each in loads.items():
            due, rows = np.array(list(arrivals_of(each, seconds, rng))).reshape(-1, 2).T
            service = each.curve.mean(rows) * rng.choice(each.curve.spread, len(due))
            service *= slow if model == list(loads)[-1] else 1.0
            found[model] = tuple(np.rint(MICROS * times).astype(int) for times in (due, service))
        return found

    def simulated(self, latencies: Latencies, pools: Sequence[Pool], load: float, slow: float = 1.0) -> dict[str, np.ndarray]:
        """{model: duration of each of its requests, microseconds}; one queue per pool. The first don't count: see `settled`."""
        drawn, found = self.drawn(load, slow), {}
        for pool in pools:
            due, service = (np.concatenate(times) for times in zip(*(drawn[model] for model in pool.models)))
            names = np.repeat(pool.models, [len(drawn[model][0]) for model in pool.models])
            order = np.argsort(due, kind="stable")
            took = np.empty(len(due))
            took[order] = latencies(due[order].tolist(), service[order].tolist(), pool.cores)
            found |= {model: took[settled(due) & (names == model)] for model in pool.models}
        return found

    def p99s(self, latencies: Latencies, pools: Sequence[Pool], load: float, slow: float = 1.0) -> dict[str, float]:
        """{"main" and "variants": p99 divided by the limit}; for the variants, that of the worst."""
        found = self.simulated(latencies, pools, load, slow)
        over = {model: float(np.percentile(took, 99)) / self.limit(model) for model, took in found.items() if len(took)}
        return {"main": over.pop(self.main), "variants": max(over.values())}

    def main_p99(self, latencies: Latencies, load: float) -> Callable[[int], float]:
        """A function n -> the main model's p99 on n dedicated cores, in microseconds."""
        due, service = self.drawn(load)[self.main]
        return lambda n: float(np.percentile(np.asarray(latencies(due.tolist(), service.tolist(), n))[settled(due)], 99))

    def policies(self, latencies: Latencies, main_cores: Callable) -> dict[str, Policy]:
        """The package's policies, whose "dedicated" takes a formula for the main model's p99; "yours" is the learner's rule."""
        found = {name: functools.partial(self.pools, name) for name in allocation.POLICIES}
        return found | {"yours": functools.partial(self.dedicated, main_cores, latencies)}

    def pools(self, policy: str, load: float) -> list[Pool]:
        """The pools of one of the package's policies for this load."""
        return allocation.POLICIES[policy](self.at(load), self.cores)

    def dedicated(self, main_cores: Callable, latencies: Latencies, load: float) -> list[Pool] | None:
        """The pools by the learner's rule; None if it finds none."""
        work = {model: each.work for model, each in self.at(load).items()}
        others = tuple(model for model in self.loads if model != self.main)
        busy = sum(work[model] for model in others)
        own = main_cores(self.main_p99(latencies, load), self.limit(self.main), busy, self.cores)
        return None if own is None else [Pool(own, (self.main,)), Pool(self.cores - own, others)]

    def most(self, latencies: Latencies, pools: Policy) -> float:
        """The largest share of the machine's cores that is busy while every model is within its limit, in whole percents."""
        low, high = 0, 100
        while high - low > 1:
            middle = (low + high) // 2
            made = pools(middle / 100)
            fits = made is not None and max(self.p99s(latencies, made, middle / 100).values()) <= 1
            low, high = (middle, high) if fits else (low, middle)
        return low / 100


def settled(due: np.ndarray) -> np.ndarray:
    """Marks the requests that count. Queues begin empty, so requests of the first part of the time, `WARM_UP`, don't."""
    return due >= WARM_UP * due.max(initial=0)


def waits(cores: int, utilization: float) -> float:
    """The mean wait for one of this number of cores, in mean service times, if gaps and service times are exponential (M/M/c)."""
    return chance_to_wait(cores, cores * utilization) / (cores * (1 - utilization))


def random_calls(cores: int, utilization: float, count: int) -> tuple[list[int], list[int]]:
    """Due and service of requests whose gaps and service times are exponential; a service takes 1,000 on average."""
    rng = np.random.default_rng(1)
    due = np.cumsum(rng.exponential(1_000 / (cores * utilization), count))
    return np.rint(due).astype(int).tolist(), np.rint(rng.exponential(1_000, count)).astype(int).tolist()
