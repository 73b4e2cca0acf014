"""The open loop: sends each request when it is due, on as many connections as that takes, whether or not others were answered.

    due        0.00   0.01   0.02  ...          drawn beforehand; an alarm wakes the loop for each
    sent        on an idle connection of the address with the fewest requests inside, or a new one, or it waits for one
    latency     answer - due, so whatever held a request up counts, here or there

Requests that are refused, not answered in time, or whose connection breaks are counted by their kind of failure; none is sent
twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.load.alarm import Alarm
from ctrlab.load.answers import HttpAnswer, NotHttp, Reader
from ctrlab.load.outcome import Outcome

MOST_CONNECTIONS = 256
BEGINS_SECONDS = 0.05
"""Seconds from the call to the start of the schedule, in which a few connections are opened."""
READY = 4
"""Number of connections to each address that are opened before the start."""


class Target(NamedTuple):
    """The address of a server. Several targets share the load as behind an ideal balancer: the one with the fewest requests
    inside gets the next.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def post(path: str, body: bytes, token: str = "", host: str = "localhost", **headers: str) -> bytes:
    """The bytes of a POST request with JSON, or with the content that another `Content_Type` names.

    Args:
        headers: further headers, with `_` for `-` in their names.
    Raises:
        CtrlabError: a header is not printable ASCII.
    """
    given = {"Content_Type": "application/json"} | headers
    return asked("POST", path, body, token, host, **given)


def asked(method: str, path: str, body: bytes = b"", token: str = "", host: str = "localhost", **headers: str) -> bytes:
    """The bytes of a request with any method, as in `post`; a GET has no body."""
    given = {"Host": host} | ({"Content-Length": str(len(body))} if body or method == "POST" else {})
    if token:
        given["Authorization"] = f"Bearer {token}"
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    for name, value in given.items():
        if not (value.isascii() and value.isprintable()):
            raise CtrlabError(f"A request's header is printable ASCII; {name} is not.")
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("ascii") + body


def send(
    targets: Sequence[Target],
    requests: Sequence[bytes],
    due: np.ndarray,
    *,
    rate: float | None = None,
    seconds: float | None = None,
    timeout: float = 10.0,
    most_connections: int = MOST_CONNECTIONS,
    odd: Callable[[int, bytes], str] = lambda number, body: "",
) -> Outcome:
    """Sends one of the requests, in rotation, at each due time.

    Args:
        requests: results of `post`.
        due: seconds from the beginning, ascending; see `ctrlab.load.arrivals`.
        rate, seconds: the rate and the length for which the schedule was drawn; None: those of `due`. They differ if the schedule
            was cut.
        timeout: seconds from its due time after which a request without an answer has failed.
        most_connections: the most connections to all targets together. If all are busy, requests wait here, and their latency
            goes on.
        odd: (index in `requests`, body with status 200) -> why the body is not a valid answer; "" if it is. It runs between two
            requests, so it must take only microseconds.
    Raises:
        CtrlabError: nothing is due, or there is no request. KeyboardInterrupt: is passed on; no more requests are sent.
    """
    if not len(due) or not requests or not targets:
        raise CtrlabError("A load has at least one address, one request and one time at which it is due; it has none.")
    seconds = float(due[-1]) if seconds is None else seconds
    rate = len(due) / max(seconds, 1e-9) if rate is None else rate
    run = _Run(targets, requests, due, timeout, most_connections, odd)
    collecting = gc.isenabled()
    gc.disable()
    cpu = time.process_time()
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook's own has a loop that runs already
            try:
                thread.submit(asyncio.run, run.whole()).result()
            except BaseException:  # Ctrl-C: the thread is waited for, whatever ends this
                run.stop()
                raise
    finally:
        cpu = time.process_time() - cpu
        if collecting:
            gc.enable()
    answered = ~np.isnan(run.latencies)
    return Outcome(
        rate=rate,
        seconds=seconds,
        latencies=tuple(np.round(run.latencies[answered], 7).tolist()),
        failures=dict(run.failures),
        why=run.why,
        lag=float(np.quantile(run.lags, 0.99)),
        took=run.last,
        cpu=cpu,
        connections=run.opened,
    )


@dataclass(eq=False)
class _Place:
    """The connections to a target."""

    target: Target
    idle: list[_Connection] = field(default_factory=list)
    inside: int = 0


class _Connection(asyncio.Protocol):
    """A connection that carries one request at a time."""

    def __init__(self, run: _Run, place: _Place):
        self.run, self.place, self.reader = run, place, Reader()
        self.request: int | None = None
        """The number of the request on this connection, or None."""
        self.transport: asyncio.Transport

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            answer = self.reader.feed(data)
            if answer and self.request is None:
                raise NotHttp("An answer follows a request; one came without.")
        except NotHttp as problem:
            self.fail(str(problem))
            return
        if answer:
            self.answered(answer)

    def eof_received(self) -> None:
        if self.request is not None and (answer := self.reader.end()):
            self.answered(answer)

    def connection_lost(self, problem) -> None:
        self.fail(f"the connection ended before the answer ({problem or 'closed by the server'})")

    def answered(self, answer: HttpAnswer) -> None:
        number, self.request = self.request, None
        self.place.inside -= 1
        if answer.keeps:
            self.place.idle.append(self)
        else:
            self.run.close(self)
        self.run.answered(number, answer)

    def fail(self, why: str, kind: str = "connection") -> None:
        """Ends the connection, and fails the request on it, if there is one."""
        number, self.request = self.request, None
        with contextlib.suppress(ValueError):
            self.place.idle.remove(self)
        self.run.close(self)
        if number is not None:
            self.place.inside -= 1
            self.run.failed(number, kind, why)


class _Run:
    """One schedule, from its first request to its last answer."""

    def __init__(self, targets, requests, due, timeout, most_connections, odd):
        self.places = [_Place(target) for target in targets]
        self.requests, self.due, self.timeout, self.most = requests, due, timeout, most_connections
        self.odd = odd
        self.latencies, self.lags = np.full(len(due), np.nan), np.zeros(len(due))
        self.failures: Counter[str] = Counter()
        self.why, self.last, self.opened = "", 0.0, 0
        self.next, self.left = 0, len(due)
        self.waiting: deque[int] = deque()
        self.connections: set[_Connection] = set()
        self.opening: set[asyncio.Task] = set()
        self.clocks: dict[int, tuple[asyncio.TimerHandle, _Connection | None]] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self.done, self.stopped = asyncio.Event(), False

    def stop(self) -> None:
        """Ends the run early. Thread-safe."""
        self.stopped = True
        if self.loop:
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                self.loop.call_soon_threadsafe(self.done.set)

    async def whole(self) -> None:
        self.loop = asyncio.get_running_loop()
        if self.stopped:
            return
        self.begun = self.loop.time() + BEGINS_SECONDS
        for place in self.places:
            for _ in range(min(READY, self.most // len(self.places))):
                self._open(place, None)
        alarm = self.alarm = Alarm(self.loop, self._ring)
        alarm.set(self.begun + self.due[0])
        try:
            await self.done.wait()
        finally:
            alarm.close()
            self.waiting.clear()  # a connection that ends makes room for the next
            for task in self.opening:
                task.cancel()
            for connection in list(self.connections):
                connection.transport.abort()
            await asyncio.gather(*self.opening, return_exceptions=True)

    def _ring(self) -> None:
        """Sends all requests that are due."""
        now = self.loop.time() - self.begun
        while self.next < len(self.due) and self.due[self.next] <= now:
            number, self.next = self.next, self.next + 1
            self.lags[number] = now - self.due[number]
            late = self.loop.call_at(self.begun + self.due[number] + self.timeout, self._late, number)
            self.clocks[number] = late, None
            self._place(number)
            now = self.loop.time() - self.begun
        if self.next < len(self.due):
            self.alarm.set(self.begun + self.due[self.next])

    def _place(self, number: int) -> None:
        """Sends a request, or queues it for a connection."""
        free = [place for place in self.places if place.idle]
        fewest = min(self.places, key=lambda place: place.inside)
        if free and (least := min(free, key=lambda place: place.inside)).inside <= fewest.inside:
            self._send(number, least.idle.pop())
        elif len(self.connections) + len(self.opening) < self.most:
            self._open(fewest, number)
        elif free:
            self._send(number, least.idle.pop())
        else:
            self.waiting.append(number)

    def _send(self, number: int, connection: _Connection) -> None:
        connection.request = number
        connection.place.inside += 1
        self.clocks[number] = self.clocks[number][0], connection
        connection.transport.write(self.requests[number % len(self.requests)])

    def _open(self, place: _Place, number: int | None) -> None:
        """Opens a connection, and sends the request on it."""
        place.inside += number is not None
        task = self.loop.create_task(self._opened(place, number))
        self.opening.add(task)
        task.add_done_callback(self.opening.discard)

    async def _opened(self, place: _Place, number: int | None) -> None:
        try:
            _, connection = await self.loop.create_connection(lambda: _Connection(self, place), *place.target)
        except OSError as problem:
            place.inside -= number is not None
            if number is not None and number in self.clocks:
                self.failed(number, "connection", f"{place.target} can't be reached: {problem.strerror or problem}")
            return
        self.opened += 1
        self.connections.add(connection)
        place.inside -= number is not None
        if number is not None and number in self.clocks:  # else it has come too late
            self._send(number, connection)
        else:
            place.idle.append(connection)
            self._next()

    def answered(self, number: int, answer: HttpAnswer) -> None:
        came = self.loop.time() - self.begun
        if answer.status != 200:
            self.failed(number, f"status {answer.status}", answer.body[:500].decode(errors="replace"))
        elif why := self.odd(number % len(self.requests), answer.body):
            self.failed(number, "odd answer", why)
        else:
            self.last, self.latencies[number] = came, came - self.due[number]
            self._end(number)
        self._next()

    def failed(self, number: int, kind: str, why: str) -> None:
        self.failures[kind] += 1
        self.why = self.why or f"{kind}: {why}"
        self._end(number)
        self._next()

    def close(self, connection: _Connection) -> None:
        self.connections.discard(connection)
        connection.transport.close()

    def _next(self) -> None:
        """Sends waiting requests, as far as there are connections."""
        while self.waiting:
            if self.waiting[0] not in self.clocks:
                self.waiting.popleft()  # it came too late
            elif any(place.idle for place in self.places) or len(self.connections) + len(self.opening) < self.most:
                self._place(self.waiting.popleft())
            else:
                return

    def _late(self, number: int) -> None:
        _, connection = self.clocks[number]
        said = f"no answer within {self.timeout:g} s"
        if connection is None:
            self.failed(number, "timeout", said)
        else:
            connection.fail(said, "timeout")

    def _end(self, number: int) -> None:
        self.clocks.pop(number)[0].cancel()
        self.left -= 1
        if not self.left:
            self.done.set()
