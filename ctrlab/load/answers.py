"""Reads HTTP/1.1 answers from the bytes of a connection: lengths, chunks, and bodies that end with the connection.

It reads answers to GET and POST and refuses anything else; it is not a general parser. A load generator must use little CPU,
because it shares the machine with the server. So this parser reads a head once and looks at three headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ctrlab.errors import CtrlabError

MOST_HEAD, MOST_BODY = 1 << 16, 64 << 20


class NotHttp(CtrlabError):
    """The bytes are not an HTTP answer."""


class HttpAnswer(NamedTuple):
    """An HTTP answer.

    Attributes:
        headers: {name in lower case: value}.
        keeps: whether the connection takes another request.
    """

    status: int
    body: bytes
    headers: Mapping[bytes, bytes]
    keeps: bool


class Reader:
    """Reads one answer after the other from one connection."""

    def __init__(self) -> None:
        self._got = bytearray()
        self._begin()

    def _begin(self) -> None:
        self._status, self._keeps, self._body, self._headers = 0, True, b"", {}
        self._left: int | None = None
        """Number of bytes of the body that are still missing; None: the body lasts until the connection ends."""
        self._chunked = False

    @property
    def begun(self) -> bool:
        """Whether a part of an answer has arrived."""
        return bool(self._got or self._status)

    def feed(self, data: bytes) -> HttpAnswer | None:
        """Takes bytes; returns the answer if they complete it, else None.

        Raises:
            NotHttp: the bytes are not an answer, the answer is too large, or more comes than was asked for.
        """
        self._got += data
        while not self._status:
            end = self._got.find(b"\r\n\r\n", 0, MOST_HEAD)
            if end < 0:
                if len(self._got) > MOST_HEAD:
                    raise NotHttp(f"An answer's head has at most {MOST_HEAD} bytes; this one has more.")
                return None
            self._head(bytes(self._got[:end]))
            del self._got[: end + 4]
        if len(self._got) > MOST_BODY:
            raise NotHttp(f"An answer has at most {MOST_BODY} bytes; this one has more.")
        if self._chunked:
            whole = self._take_chunks()
        else:
            whole = self._left is not None and len(self._got) >= self._left
            if whole:
                self._body = bytes(self._got[: self._left])
                del self._got[: self._left]
        return self._done() if whole else None

    def end(self) -> HttpAnswer | None:
        """The answer, if the end of the connection completes it; otherwise None."""
        if not self._status or self._chunked or self._left is not None:
            return None
        self._body = bytes(self._got)
        self._got.clear()
        return self._done()

    def _done(self) -> HttpAnswer:
        if self._got:
            raise NotHttp("An answer has the length that it says; more came.")
        answer = HttpAnswer(self._status, self._body, self._headers, self._keeps)
        self._begin()
        return answer

    def _head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        parts = first.split(b" ", 2)
        if len(parts) < 2 or parts[0] not in (b"HTTP/1.1", b"HTTP/1.0") or not (len(parts[1]) == 3 and parts[1].isdigit()):
            raise NotHttp(f"An answer begins with HTTP/1.1 and a status; received {first[:60].decode('latin-1')!r}.")
        status = int(parts[1])
        if 100 <= status < 200:  # another head follows
            return
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        connection = headers.get(b"connection", b"").lower()
        self._keeps = connection == b"keep-alive" if parts[0] == b"HTTP/1.0" else connection != b"close"
        self._chunked = headers.get(b"transfer-encoding", b"").lower() == b"chunked"
        length = headers.get(b"content-length")
        if length is not None and not (length.isdigit() and int(length) <= MOST_BODY):
            raise NotHttp(f"An answer's length is a number, {MOST_BODY} at most; received {length[:60].decode('latin-1')!r}.")
        self._left = 0 if status in (204, 304) else None if length is None else int(length)
        self._keeps &= self._chunked or self._left is not None
        self._status, self._headers = status, headers

    def _take_chunks(self) -> bool:
        """Moves complete chunks to the body. Returns whether the last one has come."""
        while (end := self._got.find(b"\r\n")) >= 0:
            size = bytes(self._got[:end]).partition(b";")[0].strip()
            try:
                length = int(size, 16)
            except ValueError:
                raise NotHttp(f"A chunk begins with its length; received {size[:60].decode('latin-1')!r}.") from None
            if not 0 <= length <= MOST_BODY - len(self._body):
                raise NotHttp(f"An answer has at most {MOST_BODY} bytes; this one has more.")
            if length == 0:
                rest = bytes(self._got[end:])
                trailer = rest.find(b"\r\n\r\n")
                if trailer < 0:
                    return False
                del self._got[: end + trailer + 4]
                return True
            if len(self._got) < end + 2 + length + 2:
                return False
            self._body += bytes(self._got[end + 2 : end + 2 + length])
            del self._got[: end + 2 + length + 2]
        if len(self._got) > MOST_HEAD:
            raise NotHttp(f"A chunk begins with its length; {len(self._got)} bytes came without.")
        return False
