"""Servers that stall and lines to them, on a simulated and on a real clock, for the lesson on latency. Times are microseconds.

A generator of load talks to a line:

    line.now()          microseconds since the beginning
    line.send(number)   sends that request, and returns at once
    line.wait(until)    returns [(number, when it was answered)] as soon as there is one, or at `until` at the latest

A request that was refused is answered at `math.inf`.
"""

from __future__ import annotations

import contextlib
import heapq
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from ctrlab.errors import CtrlabError
from ctrlab.lessons.recorder import Recorder
from ctrlab.load import arrivals, sweep
from ctrlab.load.outcome import Outcome
from ctrlab.load.queueing import NEVER

SECOND = 1_000_000
ENOUGH_SECONDS = 0.3  # to know how many requests per second can be answered

Pause = tuple[int, int]
"""A pause of a server: the times at which it stops beginning calls, and at which it continues."""
Loop = Callable[[Sequence[int], object], Iterable[tuple[int, float]]]
"""A generator of load: (due, line) -> (number, latency) of each request, as answers come."""


def schedule(rate: float, seconds: float, seed: int = 0) -> list[int]:
    """Due times of requests of independent users at a mean rate per second, ascending."""
    return (arrivals.poisson(rate, seconds, seed) * SECOND).astype(int).tolist()


def percentile(latencies: Sequence[float], percent: float) -> float:
    """The time within which this percentage of all requests was answered, as the package counts; infinite if fewer were ever
    answered.
    """
    answered = tuple(each for each in latencies if each < math.inf)
    refused = len(latencies) - len(answered)
    return Outcome(1.0, 1.0, answered, {"refused": refused} if refused else {}).percentile(percent)


def goes_on(at: int, pauses: Collection[Pause]) -> int:
    """The first moment, from `at` on, outside of all pauses."""
    for begins, ends in sorted(pauses):
        if begins <= at < ends:
            at = ends
    return at


class SimulatedLine:
    """A line to a server that answers first come, first served, on a clock that moves only while the generator waits.

    Args:
        service: the time of each request.
        workers: how many are worked on at once; then answers may overtake each other.
        pauses: in which no call begins. refused: the numbers of requests that the server does not take.
        tick: the clock moves to multiples of it, as that of a machine that wakes threads late.
        most_waits: how often the generator may wait; None: as often as it likes.
    Attributes:
        sent: {number: when}. waits: how often the generator has waited.
    Raises:
        CtrlabError: a request is sent twice, or there is none of its number, or the wait would never end.
    """

    def __init__(
        self,
        service: Sequence[int],
        *,
        workers: int = 1,
        pauses: Collection[Pause] = (),
        refused: Collection[int] = (),
        tick: int = 1,
        most_waits: int | None = None,
    ):
        self.sent: dict[int, int] = {}
        self.waits = 0
        self._service, self._pauses, self._refused, self._tick = service, pauses, refused, tick
        self._free, self._now, self._most_waits = [0] * workers, 0, most_waits
        self._coming: list[tuple[int, int]] = []

    def now(self) -> int:
        return self._now

    def send(self, number: int) -> None:
        if number in self.sent or not 0 <= number < len(self._service):
            raise CtrlabError(f"Each request is sent once; number {number} was sent before, or there is none.")
        self.sent[number] = self._now
        if number in self._refused:
            heapq.heappush(self._coming, (self._now, number))
            return
        begins = goes_on(max(self._now, heapq.heappop(self._free)), self._pauses)
        ends = begins + self._service[number]
        heapq.heappush(self._free, ends)
        heapq.heappush(self._coming, (ends, number))

    def wait(self, until: float) -> list[tuple[int, float]]:
        self.waits += 1
        if self._most_waits is not None and self.waits > self._most_waits:
            raise CtrlabError(f"A generator sleeps until something happens; this one has looked {self.waits} times.")
        first = self._coming[0][0] if self._coming else NEVER
        if min(first, until) >= NEVER:
            raise CtrlabError("This wait never ends: no request is inside, and none is due.")
        wakes = max(self._now, min(first, until))
        self._now = -(-wakes // self._tick) * self._tick
        came = []
        while self._coming and self._coming[0][0] <= self._now:
            at, number = heapq.heappop(self._coming)
            came.append((number, math.inf if number in self._refused else at))
        return came


def simulated(loop: Loop, due: Sequence[int], service: int | Sequence[int], **options) -> list[float]:
    """The latencies that a generator measures of a simulated server, in due order.

    Args:
        service: the time of each request, or one time for all. options: options of the `SimulatedLine`.
    """
    line = SimulatedLine([service] * len(due) if isinstance(service, int) else service, **options)
    took = Recorder(len(due))
    for number, latency in loop(due, line):
        took.add(number, latency)
    return took.latencies


def trial(loop: Loop, service: int, seconds: float) -> Callable[[float, int], list[float]]:
    """(rate, seed) -> the latencies of a schedule of that rate, of a simulated server."""
    return lambda rate, seed: simulated(loop, schedule(rate, seconds, seed), service)


def most_as_the_package(run: Callable[[float, int], Sequence[float]], within: float, start: float) -> float:
    """The result of the search of `ctrlab load --find-most`, from finite latencies."""
    tries = sweep.most_within(lambda rate, seed: Outcome(rate, 1.0, tuple(run(rate, seed))), within, start).tries
    return max((outcome.rate for outcome in tries if outcome.percentile(sweep.PERCENT) <= within), default=0.0)


class Server:
    """Answers one request of a kind after the other in a thread of its own, as a server with one worker, and can be paused.

    Args:
        answer: does the work of a request.
    """

    def __init__(self, answer: Callable[[], object]):
        self._answer, self._pool = answer, ThreadPoolExecutor(1, "ctrlab-lesson")

    def ask(self) -> Future:
        return self._pool.submit(self._answer)

    def pause(self, micros: float) -> None:
        """Pauses for this time, after the requests that wait already."""
        self._pool.submit(time.sleep, micros / SECOND)

    def capacity(self) -> float:
        """The number of requests per second that it answers one after the other."""
        begun, answers = time.monotonic(), 0
        while time.monotonic() < begun + ENOUGH_SECONDS:
            self.ask().result()
            answers += 1
        return answers / (time.monotonic() - begun)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_) -> None:
        self.close()


class Line:
    """A line to a server on the real clock, which begins when it is made.

    Args:
        pauses: pauses, in which the server does nothing; timers start them, independently of the generator.
    """

    def __init__(self, server: Server, pauses: Collection[Pause] = ()):
        self._server, self._came = server, queue.SimpleQueue()
        self._begun = time.monotonic()
        self._timers = [threading.Timer(begins / SECOND, server.pause, [ends - begins]) for begins, ends in pauses]
        for timer in self._timers:
            timer.daemon = True
            timer.start()

    def now(self) -> float:
        return (time.monotonic() - self._begun) * SECOND

    def send(self, number: int) -> None:
        def answered(done: Future) -> None:
            failed = done.cancelled() or done.exception() is not None
            self._came.put((number, math.inf if failed else self.now()))

        self._server.ask().add_done_callback(answered)

    def wait(self, until: float) -> list[tuple[int, float]]:
        left = None if until >= NEVER else max(0.0, (until - self.now()) / SECOND)
        came: list[tuple[int, float]] = []
        with contextlib.suppress(queue.Empty):
            came.append(self._came.get(timeout=left))
            while True:
                came.append(self._came.get_nowait())
        return came

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
            timer.join()


def run(loop: Loop, server: Server, due: Sequence[int], *, pauses: Collection[Pause] = (), chart=None, name="") -> list[float]:
    """The latencies that a generator measures of a real server, in due order.

    Args:
        chart: takes the 99th percentile in milliseconds over the seconds since the beginning.
    """
    took, line = Recorder(len(due), chart, name), Line(server, pauses)
    try:
        for number, latency in loop(due, line):
            took.add(number, latency)
    finally:
        line.close()
    return took.latencies
