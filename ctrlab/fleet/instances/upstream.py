"""Requests to one instance, over connections that are kept."""

from __future__ import annotations

import asyncio
import errno
import select
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import h11

from ctrlab.errors import CtrlabError

KEPT_SECONDS = 4.0
"""For which a connection is kept that nobody uses: less than uvicorn's 5, so that none is used that the other side closes."""
READ = 1 << 18
MOST_BYTES = 256 << 20
"""Of an answer."""
MOST_HEAD = 1 << 16
OURS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
"""Why there is no connection, and the instance is not to blame."""


class Broken(CtrlabError):
    """There is no whole answer: the connection was refused, or ended before.

    Attributes:
        sent: the request may have arrived.
        unread: the connection was reset before the request was read to its end: the instance's process was gone.
        ours: this process can't have another connection; that says nothing of the instance.
    """

    def __init__(self, sentence: str, sent: bool, unread: bool = False, ours: bool = False):
        super().__init__(sentence)
        self.sent, self.unread, self.ours = sent, unread, ours


class Reply(NamedTuple):
    """What an instance answered."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Upstream:
    """Of one event loop."""

    def __init__(self, host: str, port: int):
        self.host, self.port = host, port
        self._idle: deque[_Line] = deque()  # those that were used last on the right
        self._closes: asyncio.TimerHandle | None = None
        self._closed = False

    async def ask(self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]] = (), body: bytes = b"") -> Reply:
        """The answer to a request.

        Raises:
            Broken: there is none.
        """
        line = await self._line()
        try:
            reply, keeps = await line.ask(method, path, headers, body)
        except (OSError, h11.RemoteProtocolError) as problem:
            line.close()
            sentence = f"The instance on port {self.port} ended its connection before its answer was whole."
            raise Broken(sentence, True, unread=line.unread(problem)) from problem
        except BaseException:  # nobody waits for the answer any more
            line.close()
            raise
        if keeps and not self._closed:
            line.since = time.monotonic()
            self._idle.append(line)
            self._closes = self._closes or asyncio.get_running_loop().call_later(KEPT_SECONDS, self._close_old)
        else:
            line.close()
        return reply

    def close(self) -> None:
        """Closes the connections that are idle; the others are closed once they were answered."""
        self._closed = True
        if self._closes:
            self._closes.cancel()
        for line in self._idle:
            line.close()
        self._idle.clear()

    def _close_old(self) -> None:
        """Closes those that were idle for too long: the other side closes them too, and each is an open file until both did."""
        while self._idle and (left := self._idle[0].since + KEPT_SECONDS - time.monotonic()) <= 0:
            self._idle.popleft().close()
        self._closes = asyncio.get_running_loop().call_later(left, self._close_old) if self._idle else None

    async def _line(self) -> _Line:
        while self._idle:
            line = self._idle.pop()
            if line.fresh():
                return line
            line.close()
        try:
            return _Line(*await asyncio.open_connection(self.host, self.port))
        except OSError as problem:
            sentence = f"No connection can be had to the instance on port {self.port}: {problem.strerror or problem}."
            raise Broken(sentence, False, ours=problem.errno in OURS) from None


class _Line:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)
        self._readable = select.poll()
        self._readable.register(writer.get_extra_info("socket"), select.POLLIN)
        self._heard = False
        self.since = time.monotonic()

    def fresh(self) -> bool:
        """Whether it takes another request. The system knows of its end before the event loop does: then it is readable."""
        return not self._writer.is_closing() and time.monotonic() - self.since < KEPT_SECONDS and not self._readable.poll(0)

    def unread(self, problem: Exception) -> bool:
        """Whether it ended so before the other side had read the request: who has read it all and ends sends no reset."""
        return isinstance(problem, (ConnectionResetError, BrokenPipeError)) and not self._heard

    def close(self) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> tuple[Reply, bool]:
        """The answer, and whether the connection takes another request."""
        given = [(b"host", b"localhost"), (b"content-length", str(len(body)).encode()), *headers]
        events = [h11.Request(method=method, target=path, headers=given), h11.Data(data=body), h11.EndOfMessage()]
        self._heard = False
        self._writer.write(b"".join(self._http.send(event) for event in events))
        await self._writer.drain()
        head, parts, size = None, [], 0
        while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                data = await self._reader.read(READ)
                self._heard = self._heard or bool(data)
                self._http.receive_data(data)
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                parts.append(bytes(event.data))
                size += len(parts[-1])
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionAbortedError
            if size > MOST_BYTES:
                raise ConnectionAbortedError
        framed = {b"content-length", b"transfer-encoding"} & {name for name, _ in head.headers}
        if not framed and head.status_code not in (204, 304):
            raise ConnectionAbortedError  # that its connection ended does not say that it is whole
        keeps = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if keeps:
            self._http.start_next_cycle()
        return Reply(head.status_code, tuple((bytes(n), bytes(v)) for n, v in head.headers), b"".join(parts)), keeps
