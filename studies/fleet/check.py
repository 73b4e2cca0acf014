"""Checks the simulation: the same pools and loads, simulated and on this machine's cores, side by side.

Curves are measured from requests one after the other. The settings of the check are different: several models, queues, and other
numbers of rows. The speed of a shared machine varies. So requests are also timed one after the other before and after each
setting, and the setting is simulated at that speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from ctrlab.lessons.topics.share_cores.curve import ServiceCurve
from ctrlab.lessons.topics.share_cores.real_cores import Ask, measure_curve, run
from ctrlab.lessons.topics.share_cores.served import CHECKED, MEASURED, loads_of, served
from ctrlab.lessons.topics.share_cores.simulation import Pool, simulate

from ctrlab.errors import CtrlabError
from ctrlab.plain import Plain
from ctrlab.profiles import current
from ctrlab.profiling.progress import track

UTILIZATIONS = (0.3, 0.5, 0.7)
REPETITIONS = 10
"""Number of requests of each size, multiplied by the profile's repetitions."""
TIMED = 30
"""Number of timed requests of each size before and after a setting."""
SETTLED = 2_000
"""Number of simulated requests per measured one, so that the simulation's own noise is small beside the measurement's."""


@dataclass(frozen=True)
class PoolTimes(Plain):
    """One setting of the check, and one model in it: seconds to an answer, measured and simulated."""

    pools: str
    utilization: float
    model: str
    measured_mean: float
    simulated_mean: float
    measured_p99: float
    simulated_p99: float
    requests: int

    @property
    def mean_error(self) -> float:
        return self.simulated_mean / self.measured_mean - 1

    @property
    def p99_error(self) -> float:
        return self.simulated_p99 / self.measured_p99 - 1


@dataclass(frozen=True)
class Check(Plain):
    """The measurements: {model: its curve}, and the settings."""

    curves: dict[str, ServiceCurve]
    settings: tuple[PoolTimes, ...]


def check(models: Sequence[str], *, seconds: float, profile: str | None = None) -> Check:
    """Measures the curves of two models, and compares the simulation to real cores: one pool of two cores, and one core per
    model.

    Args:
        models: two; the first has most of the traffic.
        seconds: duration of each setting.
    Raises:
        CtrlabError: the process may use fewer than two CPUs, or the seconds are too few for one request per model.
    """
    (first, second), repetitions = models, REPETITIONS * current(profile).repetitions
    layouts = {
        "2 together": [Pool(2, (first, second))],
        "1 each": [Pool(1, (first,)), Pool(1, (second,))],
    }
    settings = [(name, pools, share) for name, pools in layouts.items() for share in UTILIZATIONS]
    with served(models, sorted({*MEASURED, *CHECKED}), profile) as asks:
        others = {first: asks[second], second: asks[first]}
        curves = {
            m: measure_curve(asks[m], MEASURED, other=others[m], repetitions=repetitions) for m in track(models, "Measuring")
        }
        found: list[PoolTimes] = []
        for name, pools, utilization in track(settings, "Checking"):
            loads = loads_of(curves, utilization, apart=len(pools) > 1)
            before = slowness(asks, curves)
            measured = run(pools, loads, asks, seconds=seconds, seed=len(found))
            after = slowness(asks, curves)
            slower = {m: load.curve.slower((before[m] + after[m]) / 2) for m, load in loads.items()}
            loads = {m: replace(load, curve=slower[m]) for m, load in loads.items()}
            longer = seconds * max(1.0, SETTLED / sum(len(took) for took in measured.values()))
            simulated = simulate(pools, loads, seconds=longer, seed=len(found), cores=2)
            for model in models:
                real, made = measured[model], simulated[model]
                figures = [float(f) for pair in zip(_figures(real), _figures(made)) for f in pair]
                found.append(PoolTimes(name, utilization, model, *figures, len(real)))
    return Check(curves, tuple(found))


def slowness(asks: Mapping[str, Ask], curves: Mapping[str, ServiceCurve]) -> dict[str, float]:
    """{model: current time of requests of `CHECKED` rows on one CPU, divided by the time of its curve}."""
    mean, now = float(np.mean(CHECKED)), {m: measure_curve(ask, CHECKED, repetitions=TIMED) for m, ask in asks.items()}
    return {model: curve.mean(mean) / curves[model].mean(mean) for model, curve in now.items()}


def _figures(took: np.ndarray) -> tuple[float, float]:
    if not len(took):
        raise CtrlabError("A setting is measured until each model was asked; one was not: measure for more seconds.")
    return took.mean(), np.percentile(took, 99)
