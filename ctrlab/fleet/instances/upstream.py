"""Sends requests to one instance, over connections that are kept open."""

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
"""Seconds for which an idle connection is kept: fewer than uvicorn's 5, so that the other side does not close one in use."""
READ = 1 << 18
MOST_BYTES = 256 << 20
"""The largest answer, in bytes."""
MOST_HEAD = 1 << 16
OURS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
"""Codes of errors on connecting that are this process's fault, not the instance's."""


class Broken(CtrlabError):
    """There is no complete answer: the connection was refused, or ended too early.

    Attributes:
        sent: whether the request may have arrived.
        unread: whether the connection was reset before the request was read to its end, because the instance's process had ended.
        ours: whether this process could not open another connection, which says nothing about the instance.
    """

    def __init__(self, sentence: str, sent: bool, unread: bool = False, ours: bool = False):
        super().__init__(sentence)
        self.sent, self.unread, self.ours = sent, unread, ours


class Reply(NamedTuple):
    """The answer of an instance: HTTP status, headers and body."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Upstream:
    """The connections to one instance, in one event loop."""

    def __init__(self, host: str, port: int):
        self.host, self.port = host, port
        self._idle: deque[_Line] = deque()  # those that were used last on the right
        self._closes: asyncio.TimerHandle | None = None
        self._closed = False

    async def ask(self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]] = (), body: bytes = b"") -> Reply:
        """The answer to a request.

        Raises:
            Broken: there is no complete answer.
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
        """Closes idle connections at once, and the others after their answers."""
        self._closed = True
        if self._closes:
            self._closes.cancel()
        for line in self._idle:
            line.close()
        self._idle.clear()

    def _close_old(self) -> None:
        """Closes connections that were idle for too long. The other side closes them too, but each stays an open file until
        both sides did.
        """
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
    """One connection to the instance."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)
        self._readable = select.poll()
        self._readable.register(writer.get_extra_info("socket"), select.POLLIN)
        self._heard = False
        self.since = time.monotonic()

    def fresh(self) -> bool:
        """Whether the connection takes another request. If the other side closed it, its socket is readable before the event
        loop knows.
        """
        return not self._writer.is_closing() and time.monotonic() - self.since < KEPT_SECONDS and not self._readable.poll(0)

    def unread(self, problem: Exception) -> bool:
        """Whether the connection was reset, so that the other side had not read the whole request. One that had would not send
        a reset.
        """
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
