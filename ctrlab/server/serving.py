"""Runs the fronts of a server until it is told to stop, and then until every request inside is answered."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
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
LARGEST = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", -1)]


@dataclass(frozen=True)
class Address:
    """Where a server listens. Port 0 is any that is free."""

    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int = 8500


def serve(
    models: Models, address: Address, token: str, on_ready: Callable[[int, int], None], drain_seconds: float = 30.0
) -> None:
    """Serves until SIGTERM or SIGINT.

    Args:
        token: that clients bring; "": none.
        on_ready: called with the two ports.
        drain_seconds: how long requests inside may take at the end.
    Raises:
        CtrlabError: a port is taken.
    """
    asyncio.run(_serve(models, address, token, on_ready, drain_seconds))


async def _serve(models, address, token, on_ready, drain_seconds) -> None:
    stops = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stops.set)
    rest = Rest(models, token)
    rpc = grpc.aio.server(options=[*LARGEST, ("grpc.so_reuseport", 0)])
    rpc.add_generic_rpc_handlers([Rpc(models, token)])
    try:
        grpc_port = rpc.add_insecure_port(f"{address.host}:{address.grpc_port}")
    except RuntimeError:
        raise _taken(address.host, address.grpc_port) from None
    http = _Http(
        uvicorn.Config(
            rest,
            host=address.host,
            port=address.port,
            http=functools.partial(Connection, refuse=models.refuse),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=int(drain_seconds),
        )
    )
    running = asyncio.create_task(http.serve())
    await rpc.start()
    while not http.started and not running.done():
        await asyncio.sleep(0.01)
    if running.done():
        await rpc.stop(None)
        raise _taken(address.host, address.port)
    on_ready(http.servers[0].sockets[0].getsockname()[1], grpc_port)
    await stops.wait()
    rest.ready = False
    http.should_exit = True
    await asyncio.gather(running, rpc.stop(drain_seconds))


class _Http(uvicorn.Server):
    """Without uvicorn's own handling of signals: two fronts stop together."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield

    async def serve(self, sockets=None) -> None:
        with contextlib.suppress(SystemExit):  # it says so when its port is taken
            await super().serve(sockets)


def _taken(host: str, port: int) -> CtrlabError:
    return CtrlabError(f"A server listens on a port of its own; {host}:{port} can't be had: stop who has it, or name another.")
