"""Messages of a server to systemd, if that started it: that it is ready, that it stops, and regularly that it is alive.

A unit of `Type=notify` is started once the server takes requests. A unit with `WatchdogSec=` is killed and started again if the
server's event loop stops. `docs/deploy/ctrlab@.service` is such a unit. Protocol: sd_notify(3).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket

READY, STOPPING, ALIVE = b"READY=1", b"STOPPING=1", b"WATCHDOG=1"


def tell(what: bytes) -> None:
    """Sends a message to systemd; without systemd it does nothing. It never waits."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        address = "\0" + address[1:] if address.startswith("@") else address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sends:
            sends.sendto(what, socket.MSG_DONTWAIT, address)


async def say_alive() -> None:
    """Reports regularly that the process is alive, three times in systemd's watchdog time. Returns at once without a watchdog."""
    micros = int(os.environ.get("WATCHDOG_USEC", 0))
    while micros and os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
        tell(ALIVE)
        await asyncio.sleep(micros / 3e6)
