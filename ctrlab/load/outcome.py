"""What became of the requests of a load."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ctrlab.plain import Plain

LATE = 0.01
"""Seconds: a generator that sends more than 1 % of its requests later than this has fallen behind."""


@dataclass(frozen=True)
class Outcome(Plain):
    """Of one run.

    Attributes:
        rate: requests per second that were asked for, in the mean.
        seconds: for how long requests were due; less than was asked for where there were too many.
        latencies: seconds from the time that each request was due to its answer, of those that were answered, in due order.
        failures: how many were not, by why: "status 503", "timeout", "connection", "odd answer".
        why: the first failure in words; "" if there is none.
        lag: the seconds by which 99 % of the requests were taken up by the generator; beyond `LATE` it has fallen behind.
        took: seconds from the schedule's beginning to the last answer.
        cpu: the generator's own CPU seconds.
        connections: how many were opened.
    """

    rate: float
    seconds: float
    latencies: tuple[float, ...]
    failures: dict[str, int] = field(default_factory=dict)
    why: str = ""
    lag: float = 0.0
    took: float = 0.0
    cpu: float = 0.0
    connections: int = 0

    @property
    def requests(self) -> int:
        return len(self.latencies) + self.failed

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def achieved(self) -> float:
        """Answers per second, until the last one came."""
        return len(self.latencies) / max(self.seconds, self.took)

    def percentile(self, percent: float) -> float:
        """The seconds within which so many percent of *all* requests were answered; infinite where fewer ever were."""
        rank = math.ceil(percent / 100 * self.requests)
        if not 1 <= rank <= len(self.latencies):
            return math.inf
        return float(np.partition(self.latencies, rank - 1)[rank - 1])

    def behind(self, allowed: float = LATE) -> bool:
        """Whether the generator could not make this rate; then the run says nothing of the server."""
        return self.lag > allowed
