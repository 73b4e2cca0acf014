"""Requests to one instance, over connections that are kept."""

from __future__ import annotations

import asyncio
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


class Broken(CtrlabError):
    """There is no whole answer: the connection was refused, or ended before. `sent` says whether the request may have arrived."""

    def __init__(self, sentence: str, sent: bool):
        super().__init__(sentence)
        self.sent = sent


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
            raise Broken(f"The instance on port {self.port} ended its connection before its answer was whole.", True) from problem
        except BaseException:  # nobody waits for the answer any more
            line.close()
            raise
        if keeps and not self._closed:
            line.since = time.monotonic()
            self._idle.append(line)
        else:
            line.close()
        return reply

    def close(self) -> None:
        """Closes the connections that are idle; the others are closed once they were answered."""
        self._closed = True
        for line in self._idle:
            line.close()
        self._idle.clear()

    async def _line(self) -> _Line:
        while self._idle and not self._idle[0].fresh:  # the other side has closed it, or will
            self._idle.popleft().close()
        while self._idle:
            line = self._idle.pop()
            if line.fresh:
                return line
            line.close()
        try:
            return _Line(*await asyncio.open_connection(self.host, self.port))
        except OSError as problem:
            raise Broken(f"The instance on port {self.port} takes no connection: {problem.strerror or problem}.", False) from None


class _Line:
    """A connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)
        self.since = time.monotonic()

    @property
    def fresh(self) -> bool:
        return not self._reader.at_eof() and time.monotonic() - self.since < KEPT_SECONDS

    def close(self) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> tuple[Reply, bool]:
        """The answer, and whether the connection takes another request."""
        given = [(b"host", b"localhost"), (b"content-length", str(len(body)).encode()), *headers]
        events = [h11.Request(method=method, target=path, headers=given), h11.Data(data=body), h11.EndOfMessage()]
        self._writer.write(b"".join(self._http.send(event) for event in events))
        await self._writer.drain()
        head, parts, size = None, [], 0
        while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(READ))
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                parts.append(bytes(event.data))
                size += len(parts[-1])
            elif isinstance(event, h11.ConnectionClosed):
                raise ConnectionResetError
            if size > MOST_BYTES:
                raise ConnectionAbortedError
        framed = {b"content-length", b"transfer-encoding"} & {name for name, _ in head.headers}
        if not framed and head.status_code not in (204, 304):
            raise ConnectionResetError  # that its connection ended does not say that it is whole
        keeps = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if keeps:
            self._http.start_next_cycle()
        return Reply(head.status_code, tuple((bytes(n), bytes(v)) for n, v in head.headers), b"".join(parts)), keeps
