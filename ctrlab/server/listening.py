"""An application on a port of this machine, from its first connection until no request is inside any more.

Clients and load balancers learn late that a server stops. So the server first reports that it is not ready, and continues to
serve until no request has come for a while (`quiet`). Then it takes no more (`Http.refuse_more`), and waits for the requests
inside (`drained`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import resource
import socket
import time
from collections.abc import Callable

import uvicorn

from ctrlab.errors import CtrlabError
from ctrlab.server.application import Application
from ctrlab.server.connections import Connection

MOST_CONNECTIONS = 2_000
"""The most connections, and half of the open files at most; beyond that, callers with the token and for health are answered."""
QUIET_SECONDS = 1.0
"""Seconds without a request after which every client is assumed to know that the server is not ready."""
MOST_QUIET_SECONDS = 5.0
"""The most seconds for which the server waits for such a quiet time."""
FLUSH_SECONDS = 10
"""Seconds within which a client must read its answer."""


class Http(uvicorn.Server):
    """A uvicorn server without uvicorn's own signal handling, because several fronts stop together."""

    running: asyncio.Task

    @classmethod
    async def on(cls, app: Application, host: str, port: int) -> Http:
        """Starts to listen for an application.

        Args:
            host: a result of `own_address`.
            port: 0: any free port.
        Raises:
            CtrlabError: the port is taken.
        """
        files = allow_files()
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            http=functools.partial(Connection, refuse=app.refuse, trusts=app.trusts),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            limit_concurrency=min(MOST_CONNECTIONS, files // 2),
            backlog=min(2_048, files // 32),  # as many are accepted before the first of them can be ended
            timeout_graceful_shutdown=FLUSH_SECONDS,
        )
        http = cls(config)
        http.running = asyncio.create_task(http.serve())
        while not http.started and not http.running.done():
            await asyncio.sleep(0.01)
        if http.running.done():
            raise taken(host, port)
        return http

    @property
    def port(self) -> int:
        return self.servers[0].sockets[0].getsockname()[1]

    async def refuse_more(self) -> None:
        """Closes the port, and each connection after its answer."""
        for listener in self.servers:
            listener.close()
        await asyncio.sleep(0.1)  # what was sent over connections that are open is read
        for connection in list(self.server_state.connections):
            connection.shutdown()

    async def end(self) -> int:
        """Ends the server. Returns the number of clients that did not read their answer."""
        self.should_exit = True
        await self.running
        return len(self.server_state.connections)

    @contextlib.contextmanager
    def capture_signals(self):
        yield

    async def serve(self, sockets=None) -> None:
        with contextlib.suppress(SystemExit):  # it says so when its port is taken
            await super().serve(sockets)


def allow_files() -> int:
    """Raises the limit of open files to the system's own, and returns it. Each connection is an open file, and shells allow fewer
    than `MOST_CONNECTIONS`.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


async def quiet(came: Callable[[], float], ends: float) -> None:
    """Waits until no request has come for `QUIET_SECONDS`, within limits.

    Args:
        came: returns the time of the last request, by `time.monotonic`.
        ends: the latest end of the wait.
    """
    begun = time.monotonic()
    while time.monotonic() < min(begun + MOST_QUIET_SECONDS, max(begun, came()) + QUIET_SECONDS, ends):
        await asyncio.sleep(0.02)


async def drained(inside: Callable[[], set[asyncio.Task]], ends: float) -> int:
    """Waits until no request is inside. Cancels those that are left at the end, and returns their number."""
    while inside() and time.monotonic() < ends:
        await asyncio.sleep(0.02)
    cut = inside()
    for task in cut:
        task.cancel()
    return len(cut)


def bracketed(host: str) -> str:
    """The host as it is written before a port: an IPv6 address has brackets."""
    return f"[{host}]" if ":" in host else host


def own_address(host: str) -> str:
    """The host without brackets, if it is one of this machine.

    Raises:
        CtrlabError: it is not an address of this machine.
    """
    bare = host.removeprefix("[").removesuffix("]")
    try:
        family, *_, place = socket.getaddrinfo(bare, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.bind(place)
    except (OSError, UnicodeError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise CtrlabError(
            f"A server listens on an address of this machine; {host[:100]} is none that it can have ({why}): "
            "name another, such as 127.0.0.1 or ::1."
        ) from None
    return bare


def taken(host: str, port: int) -> CtrlabError:
    """The error for a port that another process uses."""
    place = f"{bracketed(host)}:{port}"
    return CtrlabError(f"A server listens on a port of its own; {place} can't be had: stop who has it, or name another.")
