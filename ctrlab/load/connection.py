"""A connection to a server over HTTP, for one request after the other: `client` has many of them, for a load.

with Connection(Target("127.0.0.1", 8501)) as server:
    answer = server.ask("GET", "/v2/models/ctr", token="a-token")
"""

from __future__ import annotations

import socket

from ctrlab.errors import CtrlabError
from ctrlab.load.answers import HttpAnswer, NotHttp, Reader
from ctrlab.load.client import Target, asked

WAITS = 30.0
"""Seconds for which a request waits for the next bytes of its answer."""
READ = 1 << 18


class NoAnswer(CtrlabError):
    """There is no complete answer; `sent` says whether the request may have arrived."""

    def __init__(self, sentence: str, sent: bool):
        super().__init__(sentence)
        self.sent = sent


class Connection:
    """A connection that is opened by its first request, and again after an answer that ends it.

    Args:
        timeout: seconds without a byte after which there is no answer.
    """

    def __init__(self, where: Target, timeout: float = WAITS):
        self.where, self._timeout = where, timeout
        self._socket: socket.socket | None = None
        self._reader = Reader()

    def ask(self, method: str, path: str, body: bytes = b"", token: str = "", **headers: str) -> HttpAnswer:
        """The answer to a request.

        Args:
            headers: further ones, with `_` for `-` in their names.
        Raises:
            NoAnswer: nothing listens, or the connection ended before the answer was whole.
        """
        return self.answer(asked(method, path, body, token, **headers))

    def answer(self, request: bytes) -> HttpAnswer:
        """The answer to a request as `ctrlab.load.client.post` makes it.

        Raises:
            NoAnswer: nothing listens, or the connection ended before the answer was whole.
        """
        sent = False
        try:
            if self._socket is None:
                self._socket, self._reader = socket.create_connection(self.where, self._timeout), Reader()
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sent = True
            self._socket.sendall(request)
            answer = None
            while answer is None:
                data = self._socket.recv(READ)
                answer = self._reader.feed(data) if data else self._reader.end()
                if answer is None and not data:
                    raise ConnectionAbortedError("the connection ended before the answer")
        except (OSError, NotHttp) as problem:
            self.close()
            why = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
            raise NoAnswer(
                f"A load needs a server that answers; {self.where} does not ({why}): start one by `ctrlab serve`.", sent
            ) from None
        except BaseException:  # an interrupt: the answer under way would be taken for that to the next request
            self.close()
            raise
        if not answer.keeps:
            self.close()
        return answer

    def close(self) -> None:
        if self._socket:
            self._socket.close()
        self._socket = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_) -> None:
        self.close()
