"""The null model: the simplest plausible formula, with which the simulator is compared.

    step = max(1, threads W / cores) (fixed + per_example B / W) + link + per_worker W

    fixed, per_example   the line through the steps of one process, as the simulator has it
    link                 bytes that were measured over the link's rate: the simulator computes its bytes
    per_worker           the one constant that is fitted to steps of several workers

It does not model rows, messages or sums. So it predicts nothing for models and batches whose bytes were not measured, nor for
separate machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ctrlab.distributed import require
from ctrlab.distributed.simulator.cluster import Host
from ctrlab.plain import Plain

if TYPE_CHECKING:
    from ctrlab.lessons.topics.more_workers.measured import Measured


@dataclass(frozen=True)
class Null(Plain):
    """The constants of the null model.

    Attributes:
        fixed, per_example: seconds of one process per step, and per example.
        host: the host whose cores the workers share.
        per_worker: seconds per step for each worker.
    """

    fixed: float
    per_example: float
    host: Host
    per_worker: float = 0.0

    def __post_init__(self):
        require.attributes("A null model", self, fixed=0, per_example=0, per_worker=0)
        require.kinds("A null model", self, host=Host)

    def seconds(self, of: Measured) -> float:
        compute = self.fixed + self.per_example * of.batch / of.workers
        return float(self.host.slower(of.workers)) * compute + of.link_seconds + self.per_worker * of.workers

    def fit(self, measured: Sequence[Measured]) -> Null:
        """The null model with `per_worker` fitted: least squared relative error over the settings' medians, at least 0."""
        medians = np.array([np.median(m.seconds) for m in measured])
        workers = np.array([m.workers for m in measured]) / medians
        left = 1 - np.array([replace(self, per_worker=0.0).seconds(m) for m in measured]) / medians
        return replace(self, per_worker=max(0.0, float(left @ workers / (workers @ workers))))
