"""Records the time of each request, and draws the 99th percentile so far on a live chart."""

from __future__ import annotations

import bisect
import math
import time

from ctrlab.errors import CtrlabError

DRAWN = 100  # the answers from which on a chart has a 99th percentile
EACH = 10  # answers between two points of a chart: the generator has other things to do


class Recorder:
    """Takes the latency of each request, and draws the 99th percentile of those so far.

    Raises:
        CtrlabError: from `latencies`, if some are missing.
    """

    def __init__(self, count: int, chart=None, name: str = ""):
        self._took: list[float | None] = [None] * count
        self._sorted: list[float] = []
        self._chart, self._name, self._begun = chart, name, time.monotonic()

    def add(self, number: int, latency: float) -> None:
        self._took[number] = latency
        if self._chart:
            bisect.insort(self._sorted, latency)
            if len(self._sorted) >= DRAWN and len(self._sorted) % EACH == 0:
                so_far = self._sorted[math.ceil(0.99 * len(self._sorted)) - 1]
                self._chart.add(self._name, time.monotonic() - self._begun, so_far / 1_000)

    @property
    def latencies(self) -> list[float]:
        if missing := self._took.count(None):
            raise CtrlabError(f"A generator tells of each request; {missing} of {len(self._took)} are missing.")
        return self._took
