"""Many clients that ask a served model at once, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from ctrlab.load import arrivals
from ctrlab.profiling.timing import now
from ctrlab.server.models import Models, Overloaded
from ctrlab.serving.processor import Processor

ENOUGH_SECONDS = 0.3  # to know how many requests per second can be answered


def ask(processor: Processor, request: bytes, *, clients: int, requests: int) -> None:
    """Runs this number of clients at once; each repeats its request until all have asked this often together."""

    def client(requests: int) -> None:
        for _ in range(requests):
            processor.process(request, "json")

    with ThreadPoolExecutor(clients) as pool:
        for asked in [pool.submit(client, requests // clients) for _ in range(clients)]:
            asked.result()


@dataclass
class Overload:
    """The outcome of requests that came faster than they could be answered.

    Attributes:
        took: seconds from a request to its answer, for each accepted request.
        refused: number of refused requests. slowest_refusal: the most seconds until a refusal.
    """

    took: list[float] = field(default_factory=list)
    refused: int = 0
    slowest_refusal: float = 0.0

    def draw(self, came: list[tuple[float, float]], begun: float, chart, name: str) -> None:
        """Adds the answers that came since the last call: [(time of the request, time of the answer)]."""
        while len(self.took) < len(came):
            asked, answered = came[len(self.took)]
            self.took.append(answered - asked)
            chart.add(name, answered - begun, 1e3 * self.took[-1])

    @property
    def median(self) -> float:
        return float(np.median(self.took))

    def within(self, seconds: float) -> int:
        """The number of requests that were answered within this time."""
        return sum(each <= seconds for each in self.took)


def overload(models: Models, request: bytes, *, times: float, seconds: float, chart, name: str) -> Overload:
    """Sends requests at a multiple of the rate that was answered so far, whether or not answers come: users don't wait for each
    other. A rate that was fixed before would be no overload on a machine that becomes faster.

    Args:
        chart: takes the milliseconds of each answer over the seconds since the first request.
    """
    (model,) = models.served
    begun, answers = now(), 0
    while now() < begun + ENOUGH_SECONDS:
        models.submit(model, request, "json").result()
        answers += 1
    found, came, inside = Overload(), [], []
    gaps, begun = np.random.default_rng(0), now()

    def due() -> Iterator[float]:
        at = 0.0
        while at < seconds:
            yield at
            answered = (answers + len(came)) / (ENOUGH_SECONDS + now() - begun)
            at += gaps.exponential(1 / (times * answered))

    for _ in arrivals.paced(due(), begun):
        asked = now()
        try:
            reply = models.submit(model, request, "json")
            reply.add_done_callback(lambda _, asked=asked: came.append((asked, now())))
            inside.append(reply)
        except Overloaded:
            found.refused += 1
            found.slowest_refusal = max(found.slowest_refusal, now() - asked)
        found.draw(came, begun, chart, name)
    for reply in inside:
        reply.result()
        found.draw(came, begun, chart, name)
    return found
