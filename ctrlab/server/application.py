"""An ASGI application that answers in JSON: routes, a token, bodies within limits, and each refusal in one sentence.

It has the open inference protocol's /v2/health/live and /v2/health/ready; a subclass has the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from uvicorn.protocols.http.flow_control import CLOSE_HEADER

from ctrlab.errors import CtrlabError

LIVE, READY = "/v2/health/live", "/v2/health/ready"
REQUEST_ID = b"x-request-id"
"""The header with the request's id in the log. A request without it gets an id, which the answer contains."""
LONGEST_ID = 200
"""The most characters of a request's id."""
WARM_UP = "warm-up"
"""The id of warm-up requests, which are not logged because nobody trains on them."""
LAST_SECONDS = 5.0
"""Seconds for the rest of a request that is on its way when the server takes no more."""
STOPS = "The server stops and does not answer this request: ask another, or again later."
log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """The answer to a request."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),)


class Wrong(CtrlabError):
    """A request that is refused before it reaches a model."""

    def __init__(self, status: int, sentence: str, *headers: tuple[bytes, bytes]):
        super().__init__(sentence)
        self.status, self.headers = status, headers


Headers = Mapping[bytes, bytes]
Handler = Callable[[dict[str, str | None], Headers, Callable], Awaitable[Answer]]
"""A function that answers a request, given the groups of the route's pattern, the headers, and ASGI's `receive`."""


def of_json(found: object, status: int = 200, *headers: tuple[bytes, bytes]) -> Answer:
    return Answer(json.dumps(found).encode(), status, ((b"content-type", b"application/json"), *headers))


def shown(text: str) -> str:
    """A text from a client, shortened so that it fits into a sentence."""
    return text if len(text) <= 60 else f"{text[:60]}..."


def require_token(token: str) -> None:
    """Raises CtrlabError if the token can't be the value of a request's header."""
    if not (token.isascii() and token.isprintable() and token == token.strip()):
        raise CtrlabError(
            "A token is printable ASCII without spaces around it; CTRLAB_TOKEN's is not: look for a line end or an accent in it."
        )


def has_token(given: bytes, token: bytes) -> bool:
    """Whether the value of an authorization header brings the token. The scheme's name may be in any case (RFC 9110, 11.1)."""
    scheme, _, credentials = given.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(credentials.lstrip(b" "), token)


class Arrivals:
    """The requests that are on their way, each with a limit of time.

    Args:
        seconds: the limit.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.hurried = False
        """Whether the limit is `LAST_SECONDS` from the call of `hurry` on."""
        self._limits: set[asyncio.Timeout] = set()

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A block in which one request arrives. Raises TimeoutError if it takes too long."""
        async with asyncio.timeout(self.seconds) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    def hurry(self) -> None:
        """Leaves only `LAST_SECONDS` to those that are on their way, because the server stops."""
        self.hurried = True
        for limit in self._limits:
            limit.reschedule(min(limit.when(), asyncio.get_running_loop().time() + LAST_SECONDS))


class Application:
    """A server's answers; a subclass adds its routes.

    Args:
        token: the token that requests must bring, `Authorization: Bearer ...`; "": none.
        refuse: called for each request without an answer, with the model or "", the reason in a word, and the sentence.
        most_bytes: the largest body of a request.
        body_seconds: time within which a body must arrive.

    Attributes:
        ready: whether clients may send more requests; otherwise each answer ends its connection.
        inside: the requests in work, without those whose answers are only to be read.
        bodies: the bodies that are on their way.
        routes: (method, pattern of the whole path, handler).
        open: the handlers that require no token.
    """

    serves = ""
    """The existing paths, for the message about an unknown path."""

    def __init__(
        self, token: str, refuse: Callable[[str, str, str], None], most_bytes: int = 64 << 20, body_seconds: float = 30.0
    ):
        self._token, self.refuse, self.most_bytes, self.bodies = token.encode(), refuse, most_bytes, Arrivals(body_seconds)
        self.ready = True
        self.inside: set[asyncio.Task] = set()
        self.routes: list[tuple[str, re.Pattern, Handler]] = [
            ("GET", re.compile(LIVE), self._live),
            ("GET", re.compile(READY), self._health),
        ]
        self.open: tuple[Handler, ...] = (self._live, self._health)

    def status_of(self, problem: Exception) -> int | None:
        """The HTTP status for an error of a handler that has been counted already; None for an error of the server itself."""
        return None

    def trusts(self, scope) -> bool:
        """Whether a request is answered although there are too many connections: for health, or by a caller with the token."""
        given = dict(scope["headers"]).get(b"authorization", b"")
        return scope["path"] in (LIVE, READY) or (self._token != b"" and has_token(given, self._token))

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return
        task = asyncio.current_task()
        self.inside.add(task)
        try:
            answer = await self._answer(scope, receive)
        except Wrong as wrong:
            self.refuse("", HTTPStatus(wrong.status).name.lower(), str(wrong))
            answer = of_json({"error": str(wrong)}, wrong.status, *wrong.headers)
        except asyncio.CancelledError:  # it took longer than a server that stops waits
            answer = of_json({"error": STOPS}, 503)
        except Exception as problem:
            if status := self.status_of(problem):
                answer = of_json({"error": str(problem)}, status)
            else:
                log.exception("A request failed inside the server")
                answer = of_json({"error": "The server failed; its log says how."}, 500)
        finally:
            self.inside.discard(task)
        headers = [*answer.headers, (b"content-length", str(len(answer.body)).encode())]
        if not self.ready:
            headers.append(CLOSE_HEADER)
        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})
        except Exception:  # uvicorn's own words about it are not told
            log.exception("An answer could not be sent")
            raise

    async def _answer(self, scope, receive) -> Answer:
        path, allowed = scope["path"], []
        asked = "GET" if scope["method"] == "HEAD" else scope["method"]  # whose body the connection leaves out
        headers = dict(scope["headers"])
        for method, pattern, handler in self.routes:
            if found := pattern.fullmatch(path):
                if method == asked:
                    if handler not in self.open:
                        self._require_token(headers)
                    return await handler(found.groupdict(), headers, receive)
                allowed.append(method)
        if allowed:
            takes = (b"allow", ", ".join(allowed).encode())
            raise Wrong(405, f"{shown(path)} takes {' and '.join(allowed)}; received {shown(scope['method'])}.", takes)
        raise Wrong(404, f"This server has {self.serves}; received {shown(path)}.")

    def _require_token(self, headers: Headers) -> None:
        given = headers.get(b"authorization", b"")
        if self._token and not has_token(given, self._token):
            said = "none" if not given else "another"
            sentence = f"A request brings the server's token, in the header Authorization: Bearer ...; received {said}."
            raise Wrong(401, sentence, (b"www-authenticate", b"Bearer"))

    async def body(self, headers: Headers, receive) -> bytes:
        """The body of a request.

        Raises:
            Wrong: it is compressed, too large, too slow, or cut off.
        """
        if (coding := headers.get(b"content-encoding", b"identity")).lower() != b"identity":
            said = f"A request's body is sent as it is; received Content-Encoding: {shown(coding.decode('latin-1'))}."
            raise Wrong(415, said, (b"accept-encoding", b"identity"))
        too_large = Wrong(413, f"A request has at most {self.most_bytes} bytes: split it.")
        if headers.get(b"content-length", b"0").isdigit() and int(headers.get(b"content-length", b"0")) > self.most_bytes:
            raise too_large
        parts, size = [], 0
        try:
            async with self.bodies.one():
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Wrong(400, "The client left before its request was whole.")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self.most_bytes:
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            if self.bodies.hurried:
                raise Wrong(503, STOPS) from None
            raise Wrong(408, f"A request's body comes within {self.bodies.seconds:g} s; this one did not.") from None

    async def _live(self, *_) -> Answer:
        return Answer(b"")

    async def _health(self, *_) -> Answer:
        return Answer(b"", 200 if self.ready else 503)
