"""Queues on a simulated clock: workers serve requests in the order of arrival.

    arrivals --> waiting --leave: how many go as one call--> workers, each one call at a time --> ended

`Queue` is one such queue; a caller with several queues moves them by the same clock. `run` moves queues through a stream of
requests. The clock has any unit: floats are seconds as well as whole microseconds.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

NEVER = 1 << 62
"""A time that never comes."""


class Call(NamedTuple):
    """Requests that a worker serves together, with the times of beginning and end."""

    batch: list
    begun: float
    ends: float


class Queue:
    """A queue before workers.

    Args:
        workers: each serves one call at a time.
        length: (batch, now) -> how long a call takes that begins now.
        leave: (waiting, now) -> the number of oldest requests that start as one call now; 0: they wait. It is called while a
            worker is free.
        looks: (waiting) -> the time at which `leave` is called again, although no request has come or ended. If it says 0 then,
            it is called once more, a float's smallest step or one whole unit later: sums of floats are rounded.
        admit: (request, queue) -> whether the queue takes the request.
    Attributes:
        waiting: requests that no worker has taken yet.
        busy_until: end of the call that began last.
        refused: number of requests that were not admitted.
    """

    def __init__(
        self,
        workers: int,
        length: Callable[[list, float], float],
        leave: Callable[[Sequence, float], int] = lambda waiting, now: 1,
        looks: Callable[[Sequence], float] = lambda waiting: NEVER,
        admit: Callable[[object, Queue], bool] = lambda request, queue: True,
    ):
        self.waiting: deque = deque()
        self.busy_until: float = 0
        self.refused = 0
        self._workers, self._length, self._leave, self._looks, self._admit = workers, length, leave, looks, admit
        self._calls: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count()

    def arrive(self, request: object) -> None:
        """Adds an arriving request."""
        if self._admit(request, self):
            self.waiting.append(request)
        else:
            self.refused += 1

    def ended(self, now: float) -> list[Call]:
        """The calls that have ended by now, in the order of their ends. Each call is returned once."""
        found = []
        while self._calls and self._calls[0][0] <= now:
            found.append(heapq.heappop(self._calls)[2])
        return found

    def begin(self, now: float) -> None:
        """Lets free workers take the requests that may leave the queue now."""
        while self.waiting and len(self._calls) < self._workers and (going := self._leave(self.waiting, now)):
            batch = [self.waiting.popleft() for _ in range(min(going, len(self.waiting)))]
            self.busy_until = now + self._length(batch, now)
            heapq.heappush(self._calls, (self.busy_until, next(self._numbers), Call(batch, now, self.busy_until)))

    def next(self, now: float) -> float:
        """The time of the next event without further arrivals; `NEVER` if there is none."""
        ends = self._calls[0][0] if self._calls else NEVER
        looks = self._looks(self.waiting) if self.waiting and len(self._calls) < self._workers else NEVER
        if looks <= now:
            looks = NEVER if looks < now else now + 1 if isinstance(now, int) else math.nextafter(now, math.inf)
        return min(ends, looks)


def run(arrivals: Iterable[tuple[float, Queue, object]]) -> Iterator[tuple[Queue, Call]]:
    """Moves the clock from event to event, and yields each call when it has ended. The caller's code runs before the next call
    begins.

    Args:
        arrivals: (time, queue, request), ordered by time.
    """
    stream, numbers = iter(arrivals), itertools.count()
    coming = next(stream, None)
    upcoming: list[tuple[float, int, Queue]] = []  # when something happens in a queue; more often than it does is no harm
    while coming or upcoming:
        now = min(coming[0] if coming else NEVER, upcoming[0][0] if upcoming else NEVER)
        touched: dict[Queue, None] = {}
        while upcoming and upcoming[0][0] <= now:
            touched[heapq.heappop(upcoming)[2]] = None
        for queue in touched:
            yield from ((queue, call) for call in queue.ended(now))
        while coming and coming[0] <= now:
            coming[1].arrive(coming[2])
            touched[coming[1]] = None
            coming = next(stream, None)
        for queue in touched:
            queue.begin(now)
            if (at := queue.next(now)) < NEVER:
                heapq.heappush(upcoming, (at, next(numbers), queue))
