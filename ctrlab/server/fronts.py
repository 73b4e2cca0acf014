"""Runs the fronts of a server until a signal to stop, and then until every request inside is answered (`listening`)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from ctrlab.errors import CtrlabError
from ctrlab.server.listening import FLUSH_SECONDS, Http, allow_files, bracketed, drained, own_address, quiet, taken
from ctrlab.server.models import Models
from ctrlab.server.rest import Rest
from ctrlab.server.rpc import LARGEST, Rpc
from ctrlab.server.systemd import READY, STOPPING, say_alive, tell

LIMITS = [
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_concurrent_streams", 100),  # of a connection; its client's further calls wait there
    ("grpc.http.overload_protection", 0),  # else a call counts until it is deallocated, and calls that have waited are refused
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 30_000),
    ("grpc.keepalive_time_ms", 30_000),  # then a client that takes nothing any more is left
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.so_reuseport", 0),
]
LEAVE_SECONDS = 0.5
"""Seconds within which clients of gRPC may close their connections themselves."""
MOST_CONNECTIONS = 1_000
"""The most gRPC connections, and a quarter of the open files at most. HTTP has half of them, and the models the rest."""


@dataclass(frozen=True)
class Address:
    """The address on which a server listens. Port 0 means any free port."""

    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int = 8500


def serve(
    models: Models, address: Address, token: str, on_ready: Callable[[int, int], None], drain_seconds: float = 300.0
) -> int:
    """Serves until SIGTERM or SIGINT. Returns the number of requests that were cut off at the end.

    Args:
        token: the token that clients must bring; "": none.
        on_ready: called with the two ports.
        drain_seconds: time for the requests that are inside at the end.
    Raises:
        CtrlabError: a port is taken, or the host is not an address of this machine.
    """
    return asyncio.run(_serve(models, address, token, on_ready, drain_seconds))


def grpc_server(rpc: Rpc) -> grpc.aio.Server:
    """A server of gRPC within limits; it has no port yet."""
    most = min(MOST_CONNECTIONS, allow_files() // 4)
    calls = grpc.aio.server(options=[*LIMITS, ("grpc.max_allowed_incoming_connections", most)])
    calls.add_generic_rpc_handlers([rpc])
    return calls


async def _serve(models, address, token, on_ready, drain_seconds) -> int:
    stops = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stops.set)
    host = own_address(address.host)
    rest, rpc = Rest(models, token), Rpc(models, token)
    calls = grpc_server(rpc)
    try:
        grpc_port = calls.add_insecure_port(f"{bracketed(host)}:{address.grpc_port}")
    except RuntimeError:
        raise taken(host, address.grpc_port) from None
    await calls.start()
    try:
        http = await Http.on(rest, host, address.port)
    except CtrlabError:
        await calls.stop(None)
        raise
    on_ready(http.port, grpc_port)
    tell(READY)
    alive = asyncio.create_task(say_alive())
    await stops.wait()
    tell(STOPPING)
    ends = time.monotonic() + drain_seconds
    rest.ready = rpc.ready = False
    await quiet(lambda: models.came, ends)
    rpc.refuse_more()
    rest.bodies.hurry()
    await http.refuse_more()
    cut = await drained(lambda: {*rest.inside, *rpc.inside}, ends)
    logged = asyncio.create_task(asyncio.to_thread(models.end_log))  # it waits for no client
    unread, unheard = await asyncio.gather(http.end(), _end(calls, rpc))
    await logged
    alive.cancel()
    return cut + unread + unheard


async def _end(calls: grpc.aio.Server, rpc: Rpc) -> int:
    """Ends the server of gRPC. Returns the number of clients that did not read their answer.

    `stop` alone would wait for all who are connected, with or without a token.
    """
    unread = await drained(lambda: rpc.unread, time.monotonic() + FLUSH_SECONDS)
    await calls.stop(LEAVE_SECONDS)
    return unread
