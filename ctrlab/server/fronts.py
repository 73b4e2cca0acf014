"""Runs the fronts of a server until a signal to stop, and then until every request inside is answered (`listening`)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from ctrlab.errors import CtrlabError
from ctrlab.server.listening import FLUSH_SECONDS, Http, bracketed, drained, own_address, quiet, taken
from ctrlab.server.models import Models
from ctrlab.server.rest import Rest
from ctrlab.server.rpc import Rpc
from ctrlab.server.systemd import READY, STOPPING, say_alive, tell

LARGEST = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", -1)]


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


async def _serve(models, address, token, on_ready, drain_seconds) -> int:
    stops = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stops.set)
    host = own_address(address.host)
    rest, rpc = Rest(models, token), Rpc(models, token)
    calls = grpc.aio.server(options=[*LARGEST, ("grpc.so_reuseport", 0)])
    calls.add_generic_rpc_handlers([rpc])
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
    rpc.takes = False
    await http.refuse_more()
    cut = await drained(lambda: {*http.inside, *rpc.inside}, ends)
    unread, _ = await asyncio.gather(http.end(), calls.stop(FLUSH_SECONDS))
    alive.cancel()
    return cut + unread
