"""Runs the fronts of a server until it is told to stop, and then until every request inside is answered.

Clients and whoever sends them here learn late that a server stops. So it first says that it is not ready, and serves on until
nothing has come for a while; then it takes no more; then it waits for what is inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import uvicorn

from ctrlab.errors import CtrlabError
from ctrlab.server.connections import Connection
from ctrlab.server.models import Models
from ctrlab.server.rest import Rest
from ctrlab.server.rpc import Rpc

MOST_CONNECTIONS = 2_000
QUIET_SECONDS = 1.0
"""Without a request: then nobody is left who believes that the server is ready."""
MOST_QUIET_SECONDS = 5.0
"""For which it waits for that."""
FLUSH_SECONDS = 30
"""In which a client has to read its answer."""
LARGEST = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", -1)]


@dataclass(frozen=True)
class Address:
    """Where a server listens. Port 0 is any that is free."""

    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int = 8500


def serve(
    models: Models, address: Address, token: str, on_ready: Callable[[int, int], None], drain_seconds: float = 300.0
) -> int:
    """Serves until SIGTERM or SIGINT. Returns how many requests inside were cut off then.

    Args:
        token: that clients bring; "": none.
        on_ready: called with the two ports.
        drain_seconds: how long requests inside may take at the end.
    Raises:
        CtrlabError: a port is taken, or the host is no address of this machine.
    """
    return asyncio.run(_serve(models, address, token, on_ready, drain_seconds))


async def _serve(models, address, token, on_ready, drain_seconds) -> int:
    stops = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stops.set)
    host = _own(address.host)
    rest, rpc = Rest(models, token), Rpc(models, token)
    calls = grpc.aio.server(options=[*LARGEST, ("grpc.so_reuseport", 0)])
    calls.add_generic_rpc_handlers([rpc])
    try:
        grpc_port = calls.add_insecure_port(f"{bracketed(host)}:{address.grpc_port}")
    except RuntimeError:
        raise _taken(host, address.grpc_port) from None
    http = _Http(
        uvicorn.Config(
            rest,
            host=host,
            port=address.port,
            http=functools.partial(Connection, refuse=models.refuse),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=FLUSH_SECONDS,
        )
    )
    running = asyncio.create_task(http.serve())
    await calls.start()
    while not http.started and not running.done():
        await asyncio.sleep(0.01)
    if running.done():
        await calls.stop(None)
        raise _taken(host, address.port)
    on_ready(http.servers[0].sockets[0].getsockname()[1], grpc_port)
    await stops.wait()
    ends = time.monotonic() + drain_seconds
    rest.ready = rpc.ready = False
    await _quiet(models, ends)
    rpc.takes = False
    for listener in http.servers:
        listener.close()
    await asyncio.sleep(0.1)  # what was sent over connections that are open is read
    for connection in list(http.server_state.connections):
        connection.shutdown()
    cut = await _drained(lambda: {*http.server_state.tasks, *rpc.inside}, ends)
    http.should_exit = True
    await asyncio.gather(running, calls.stop(FLUSH_SECONDS))
    return cut + len(http.server_state.connections)  # of clients that read no answer


async def _quiet(models: Models, ends: float) -> None:
    """Until no request has come for `QUIET_SECONDS`, within limits."""
    begun = time.monotonic()
    while time.monotonic() < min(begun + MOST_QUIET_SECONDS, max(begun, models.came) + QUIET_SECONDS, ends):
        await asyncio.sleep(0.02)


async def _drained(inside: Callable[[], set[asyncio.Task]], ends: float) -> int:
    """Until nothing is inside. Cancels what is then there still, and returns how much that is."""
    while inside() and time.monotonic() < ends:
        await asyncio.sleep(0.02)
    cut = inside()
    for task in cut:
        task.cancel()
    return len(cut)


class _Http(uvicorn.Server):
    """Without uvicorn's own handling of signals: two fronts stop together."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield

    async def serve(self, sockets=None) -> None:
        with contextlib.suppress(SystemExit):  # it says so when its port is taken
            await super().serve(sockets)


def bracketed(host: str) -> str:
    """As it stands before a port."""
    return f"[{host}]" if ":" in host else host


def _own(host: str) -> str:
    """The host without brackets, if it is one of this machine."""
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


def _taken(host: str, port: int) -> CtrlabError:
    place = f"{bracketed(host)}:{port}"
    return CtrlabError(f"A server listens on a port of its own; {place} can't be had: stop who has it, or name another.")
