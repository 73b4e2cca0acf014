"""A server and its queue on the clock of `ctrlab.load.queueing`. All times are whole microseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ctrlab.load import arrivals
from ctrlab.load.queueing import NEVER, Queue, run


class Request(NamedTuple):
    """A request: its arrival time, its number of rows, the version that answers it, and its deadline."""

    arrived: int
    rows: int = 1
    version: int = 1
    deadline: int = NEVER


@dataclass(frozen=True)
class Cost:
    """The time of a call of the model, in microseconds: cost(rows) = fixed + per_row * rows."""

    fixed: float
    per_row: float

    def __call__(self, rows: int) -> int:
        return max(1, round(self.fixed + self.per_row * rows))

    @classmethod
    def fit(cls, seconds: dict[int, float]) -> Cost:
        """The line with the least relative error for measured times, {rows: seconds}."""
        rows, micros = np.array(list(seconds)), 1e6 * np.array(list(seconds.values()))
        columns = np.stack([np.ones(len(rows)), rows], 1) / micros[:, None]
        fixed, per_row = np.linalg.lstsq(columns, np.ones(len(rows)), rcond=None)[0]
        return cls(max(float(fixed), 0.0), max(float(per_row), 0.0))


@dataclass
class Served:
    """The outcome of a stream of requests.

    Attributes:
        took: microseconds from a request's arrival to its answer, for the accepted requests.
        in_time: number of requests that were answered by their deadline. refused: number of refused requests.
        calls: number of calls of the model. ends: time of the last answer.
        inside: the mean number of requests that waited or were in work.
    """

    took: list[int] = field(default_factory=list)
    in_time: int = 0
    refused: int = 0
    calls: int = 0
    ends: int = 0

    @property
    def inside(self) -> float:
        return sum(self.took) / max(1, self.ends)

    def percentile(self, percent: float) -> float:
        return float(np.percentile(self.took, percent)) if self.took else 0.0


def poisson(count: int, per_second: float, *, patience: int = NEVER, seed: int = 0) -> list[Request]:
    """Requests with one row that come at random, at a mean rate; each waits for its answer for `patience` microseconds."""
    due = 1e6 * arrivals.poisson(per_second, NEVER, seed, most=count)
    return [Request(int(at), deadline=min(NEVER, int(at) + patience)) for at in due]


def one_by_one(waiting: Sequence[Request], now: int, most_rows: int, most_wait: int) -> int:
    """Every request is a call of its own."""
    return 1


def everybody(request: Request, waiting: Sequence[Request], busy_until: int, cost: Callable, most_waiting: int) -> bool:
    """Every request is taken."""
    return True


def simulate(
    requests: Sequence[Request],
    cost: Callable[[int], int],
    *,
    leave: Callable = one_by_one,
    most_rows: int = 1,
    most_wait: int = 0,
    admit: Callable = everybody,
    most_waiting: int = 1 << 30,
) -> Served:
    """One server, first come, first served.

    Args:
        leave: (waiting, now, most_rows, most_wait) -> the number of oldest requests that start as one call now; 0: wait. It is
            called when the server is free: after each arrival and call, and when the oldest has waited for `most_wait`.
        admit: (request, waiting, busy_until, cost, most_waiting) -> whether the request is taken.
    """
    queue = Queue(
        1,
        length=lambda batch, now: cost(sum(request.rows for request in batch)),
        leave=lambda waiting, now: leave(list(waiting), now, most_rows, most_wait),
        looks=lambda waiting: waiting[0].arrived + most_wait,
        admit=lambda request, queue: admit(request, list(queue.waiting), queue.busy_until, cost, most_waiting),
    )
    found = Served()
    for _, call in run((request.arrived, queue, request) for request in requests):
        found.calls += 1
        found.ends = call.ends
        found.took += [call.ends - request.arrived for request in call.batch]
        found.in_time += sum(call.ends <= request.deadline for request in call.batch)
    found.refused = queue.refused
    return found
