"""A machine that serves a main model with most of the traffic, and its A/B variants."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from ctrlab.lessons.topics.share_cores.curve import Load, ServiceCurve

from ctrlab.errors import CtrlabError
from ctrlab.plain import Plain

ROWS = (50, 100, 200)
"""Numbers of candidates per request."""


@dataclass(frozen=True)
class Experiment(Plain):
    """A main model and its A/B variants.

    Attributes:
        variants: number of variants; each has the second curve.
        share: fraction of the work that all variants have together.
        patience: the limit, as a multiple of the mean time of a request that runs alone.
        crowding: factor of the curves' own crowding.
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
        """Loads of requests of `ROWS` that keep one core busy together; the main model's comes first."""
        rows = float(np.mean(ROWS))

        def load(curve: ServiceCurve, work: float) -> Load:
            curve = dataclasses.replace(curve, crowding=curve.crowding * self.crowding)
            return Load(curve, work / curve.mean(rows), ROWS, self.patience * curve.mean(rows))

        variants = {f"variant {k}": load(variant, self.share / self.variants) for k in range(1, self.variants + 1)}
        return {"main": load(main, 1 - self.share)} | variants
