"""What sharing cores out is worth on a large machine: a main model with most of the traffic, and its A/B variants.

A policy carries as much work as the machine takes with every model within its limit, in cores. Curves are measured on one core of
a small machine. So what they leave open is varied: the share of the traffic that variants have, their number, the limit, and how
much cores slow each other down.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.fleet.allocation import POLICIES, most_load
from ctrlab.fleet.curve import Load, ServiceCurve
from ctrlab.plain import Plain
from ctrlab.profiling.progress import track

ROWS = (50, 100, 200)
"""Candidates of a request."""
REQUESTS = 30_000
"""Simulated for each load that is tried."""


@dataclass(frozen=True)
class Experiment(Plain):
    """A main model and variants.

    Attributes:
        variants: how many; they are of the second curve.
        share: of the work, that the variants have together.
        patience: the limit, as a multiple of what a request takes alone on average.
        crowding: multiplies that of the curves.
    """

    variants: int = 8
    share: float = 0.2
    patience: float = 5.0
    crowding: float = 1.0

    def __post_init__(self):
        if self.variants < 1 or not 0 < self.share < 1 or self.patience <= 0 or self.crowding < 0:
            raise CtrlabError(
                "An experiment has at least one variant, a share of the work between 0 and 1, and a limit above 0; received "
                f"{self}."
            )

    def loads(self, main: ServiceCurve, variant: ServiceCurve) -> dict[str, Load]:
        """One core's work of requests of `ROWS`, the main model's first."""
        rows = float(np.mean(ROWS))

        def load(curve: ServiceCurve, work: float) -> Load:
            curve = dataclasses.replace(curve, crowding=curve.crowding * self.crowding)
            return Load(curve, work / curve.mean(rows), ROWS, self.patience * curve.mean(rows))

        variants = {f"variant {k}": load(variant, self.share / self.variants) for k in range(1, self.variants + 1)}
        return {"main": load(main, 1 - self.share)} | variants


VARIED = (
    Experiment(),
    *(Experiment(variants=n) for n in (2, 4, 16)),
    *(Experiment(share=share) for share in (0.05, 0.5)),
    *(Experiment(patience=times) for times in (3.0, 10.0)),
    *(Experiment(crowding=times) for times in (0.0, 2.0)),
)
"""One thing varied at a time."""


def carried(
    experiment: Experiment, main: ServiceCurve, variant: ServiceCurve, cores: int, *, requests: int | None = None
) -> dict[str, float]:
    """{policy: the share of the machine's cores that it keeps busy within all limits}, from so many requests for each load."""
    loads = experiment.loads(main, variant)
    seconds = (requests or REQUESTS) / (cores * sum(load.per_second for load in loads.values()))
    return {policy: most_load(policy, loads, cores, seconds=seconds) / cores for policy in POLICIES}


def vary(curves: Mapping[str, ServiceCurve], cores: int) -> list[tuple[Experiment, dict[str, float]]]:
    """`carried` of each of `VARIED`; the first curve is the main model's, the second its variants'."""
    main, variant = curves.values()
    return [(each, carried(each, main, variant, cores)) for each in track(VARIED, f"Simulating {cores} cores")]
