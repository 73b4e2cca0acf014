"""Reads HTTP/1.1 answers from the bytes of a connection: lengths, chunks, and bodies that end with the connection.

It reads what servers send to a GET or a POST and refuses the rest; it is no general parser. A generator must be cheap beside
the server, for they share a machine. So it passes once over a head and looks at three headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ctrlab.errors import CtrlabError

MOST_HEAD, MOST_BODY = 1 << 16, 64 << 20


class NotHttp(CtrlabError):
    """Bytes that are no answer."""


class HttpAnswer(NamedTuple):
    """An answer.

    Attributes:
        headers: names are lower case.
        keeps: whether the connection takes another request.
    """

    status: int
    body: bytes
    headers: Mapping[bytes, bytes]
    keeps: bool


class Reader:
    """Of one answer after the other, on one connection."""

    def __init__(self) -> None:
        self._got = bytearray()
        self._begin()

    def _begin(self) -> None:
        self._status, self._keeps, self._body, self._headers = 0, True, b"", {}
        self._left: int | None = None
        """Bytes of the body that are to come; None: until the end."""
        self._chunked = False

    @property
    def begun(self) -> bool:
        """Whether a part of an answer has come."""
        return bool(self._got or self._status)

    def feed(self, data: bytes) -> HttpAnswer | None:
        """The answer, if it is whole with these bytes.

        Raises:
            NotHttp: it is none, is too large, or more comes than was asked for.
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
        """The answer, if it ends with the connection; None if it is not whole."""
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
        """Moves whole chunks to the body; whether the last has come."""
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
