"""What a server tells systemd, where that started it: that it is ready, that it stops, and again and again that it is alive.

A unit of `Type=notify` is started once the server takes requests. One with `WatchdogSec=` is killed and started again when its
event loop stands still. `docs/deploy/ctrlab@.service` is such a unit. Protocol: sd_notify(3).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

READY, STOPPING, ALIVE = b"READY=1", b"STOPPING=1", b"WATCHDOG=1"


def tell(what: bytes) -> None:
    """Sends it; without systemd it does nothing. It never waits."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        address = "\0" + address[1:] if address.startswith("@") else address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sends:
            sends.sendto(what, socket.MSG_DONTWAIT, address)


async def say_alive() -> None:
    """Says so three times in the time after which systemd would kill the process; returns at once where it watches over none."""
    micros = int(os.environ.get("WATCHDOG_USEC", 0))
    while micros and os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
        tell(ALIVE)
        await asyncio.sleep(micros / 3e6)
