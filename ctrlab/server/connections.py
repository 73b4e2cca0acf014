"""HTTP connections with limits that uvicorn does not set. A request's head must arrive within a time, and its answer must be read
within a time. A connection is closed if its request is answered before the whole body has arrived, or states its length twice.
Bytes that are not HTTP, and connections beyond the limit, are refused in JSON like everything else, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable

import h11
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """Ends with status 408 when a request's head, from its first byte on, does not come in time.

    Idle connections do not stay open forever: before the first request they have the same time limit, and after each request
    uvicorn's `timeout_keep_alive`. The body has its own limit, `Application.bodies`.

    Args:
        refuse: called for each request that ends here, like `Models.refuse`.
        trusts: whether a request, by its ASGI scope, is answered although there are too many connections.
    """

    head_seconds = 10.0
    unread_seconds = 30.0
    """Seconds for which a client may take nothing of what is sent to it. The system watches them, and drops the connection."""
    linger_seconds = 2.0
    """Seconds for which a client may continue to send after it was answered."""
    _clock: asyncio.TimerHandle | None = None

    def __init__(
        self,
        *args,
        refuse: Callable[[str, str, str], None] | None = None,
        trusts: Callable[[dict], bool] = lambda scope: False,
        **options,
    ):
        super().__init__(*args, **options)
        self._refuse, self._trusts, self._inner, self.app = refuse, trusts, self.app, self._answer
        # uvicorn's own refusal is plain text, and a line in the log.
        self._most, self.limit_concurrency = self.limit_concurrency, None
        self.made = self.loop.time()

    def connection_made(self, transport) -> None:
        unread = int(self.unread_seconds * 1000)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread)
        super().connection_made(_Lingering(transport, self))
        self._watch()
        if self._most is not None and len(self.connections) > self._most * 9 // 8 + 1:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():  # it lingers
            return
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc) -> None:
        self._stop()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        self._end(400, "bad_request", "A request is HTTP/1.1 with a head below 64 KiB; this one is not.")

    @property
    def whole(self) -> bool:
        """Whether the request that is being answered has arrived completely."""
        return self.conn.their_state not in (h11.SEND_BODY, h11.ERROR)

    @property
    def stays(self) -> tuple[bool, bool]:
        """Whether the client has yet to take what was sent to it, beyond what the system holds; and whether it lingers."""
        return self.transport.get_write_buffer_size() > 0, self.transport.is_closing()

    def _should_upgrade(self) -> bool:
        return False

    async def _answer(self, scope, receive, send) -> None:
        crowded = self._most is not None and len(self.connections) > self._most
        twice = {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}  # RFC 9112, 6.1

        async def says(message) -> None:
            ends = crowded or twice or not self.whole
            if message["type"] == "http.response.start" and ends and CLOSE_HEADER not in message["headers"]:
                message = message | {"headers": [*message["headers"], CLOSE_HEADER]}
            await send(message)

        if not crowded or self._trusts(scope):
            await self._inner(scope, receive, says)
            return
        self._end(503, "service_unavailable", self._crowded())

    def _make_room(self) -> None:
        """Ends another connection, so that whoever is trusted finds an open file: one without a request, first those that never
        had one; else one that was ended and lingers; else one whose client does not take its answer. Of each kind the oldest.
        """
        idle = {each for each in self.connections if each.conn.our_state is h11.IDLE or any(each.stays)}
        least = min(idle - {self}, key=lambda each: (*each.stays, each.cycle is not None, each.made), default=self)
        self.connections.discard(least)  # before the next comes, which may be at once
        if any(least.stays):
            least.transport.abort()
        else:
            least._end(503, "service_unavailable", self._crowded())

    def _crowded(self) -> str:
        return f"A server has {self._most} connections at most: try again later."

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # the head is there
            self._stop()
        elif self._clock is None:
            self._clock = self.loop.call_later(self.head_seconds, self._too_slow)

    def _stop(self) -> None:
        if self._clock:
            self._clock.cancel()
            self._clock = None

    def _too_slow(self) -> None:
        if self.transport.is_closing() or self.conn.our_state is not h11.IDLE:
            return
        said = f"A request's head comes within {self.head_seconds:g} s; this one did not."
        self._end(408, "request_timeout", said)

    def _end(self, status: int, why: str, sentence: str) -> None:
        """Ends the connection; sends this answer first if none was begun."""
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the application answers nobody
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            if self._refuse:
                self._refuse("", why, sentence)
            body = json.dumps({"error": sentence}).encode()
            headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
            with contextlib.suppress(h11.LocalProtocolError):  # HEAD: no body
                for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
                    self.transport.write(self.conn.send(event))
        self.transport.close()


class _Lingering:
    """A transport that, if it is closed while its client sends, continues to read for a moment. Unread bytes would reset the
    connection, and then the client might not see its answer.
    """

    def __init__(self, transport: asyncio.Transport, connection: Connection):
        self._transport, self._connection = transport, connection
        self._lingers = False

    def __getattr__(self, name: str):
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._lingers or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        if self._connection.whole:
            self._transport.close()
            return
        self._lingers = True
        self._transport.write_eof()
        self._transport.resume_reading()
        self._connection.loop.call_later(self._connection.linger_seconds, self._transport.close)
