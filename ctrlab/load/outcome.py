"""The outcome of a load: latencies and failures of its requests."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ctrlab.plain import Plain

LATE = 0.01
"""Seconds: a generator that sends more than 1 % of its requests later than this has fallen behind."""


@dataclass(frozen=True)
class Outcome(Plain):
    """The outcome of one run.

    Attributes:
        rate: the average number of requests per second that was asked for.
        seconds: the length of the schedule; less than was asked for if that had too many requests.
        latencies: seconds from a request's due time to its answer, for the answered requests, in due order.
        failures: {reason: number of requests without an answer}: "status 503", "timeout", "connection", "odd answer".
        why: a sentence on the first failure; "" if there is none.
        lag: the generator started 99 % of the requests at most this many seconds late. Above `LATE` it has fallen behind.
        took: seconds from the schedule's beginning to the last answer.
        cpu: the generator's own CPU seconds.
        connections: number of connections that were opened.
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
        """Answers per second, from the beginning to the last answer."""
        return len(self.latencies) / max(self.seconds, self.took)

    def percentile(self, percent: float) -> float:
        """The seconds within which this percentage of *all* requests was answered; infinite if fewer were ever answered."""
        rank = math.ceil(percent / 100 * self.requests)
        if not 1 <= rank <= len(self.latencies):
            return math.inf
        return float(np.partition(self.latencies, rank - 1)[rank - 1])

    def behind(self, allowed: float = LATE) -> bool:
        """Whether the generator could not reach this rate; then the run says nothing about the server."""
        return self.lag > allowed
