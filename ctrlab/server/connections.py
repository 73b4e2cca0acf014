"""HTTP connections of clients that are too slow with the head of a request: a clock that uvicorn does not have."""

from __future__ import annotations

import asyncio
import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """Ends with status 408 when a request's head, from its first byte on, does not come in time.

    Connections on which nothing is asked are not open for ever: before the first request they have the same time, and after each
    they have uvicorn's `timeout_keep_alive`. The body has a limit of its own, `Rest.body_seconds`.
    """

    head_seconds = 10.0
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc) -> None:
        self._stop()
        super().connection_lost(exc)

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
        body = json.dumps({"error": said}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        for event in (h11.Response(status_code=408, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()
