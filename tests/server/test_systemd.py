"""A server's messages to systemd, and the shipped unit."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ctrlab.server import fronts, systemd

UNIT = Path(__file__).parents[2] / "docs" / "deploy" / "ctrlab@.service"


class NoModels:
    """A folder of none."""

    came = 0.0

    def __getattr__(self, name):
        return lambda *_: {}


@pytest.fixture
def told(tmp_path):
    """The socket of who is told, in place of systemd."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hears:
        hears.bind(str(tmp_path / "notify"))
        hears.settimeout(20)
        yield hears


def test_a_server_says_that_it_is_ready_alive_and_stops(told, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", told.getsockname())
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)

    def ready(*ports):
        loop = asyncio.get_running_loop()
        loop.call_later(0.35, time.sleep, 0.5)  # the event loop stands still, and is silent
        loop.call_later(0.9, os.kill, os.getpid(), signal.SIGTERM)

    assert fronts.serve(NoModels(), fronts.Address(port=0, grpc_port=0), "", ready) == 0
    said = b" ".join(told.recv(100) for _ in range(8))
    assert said.startswith(b"READY=1" + 4 * b" WATCHDOG=1") and b"STOPPING=1 WATCHDOG=1" in said, said


def test_a_process_that_systemd_does_not_watch_says_nothing(told, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", told.getsockname())
    for variables in ({}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}):
        for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        asyncio.run(systemd.say_alive())
    told.setblocking(False)
    with pytest.raises(BlockingIOError):
        told.recv(100)


def test_without_systemd_nothing_is_told(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    systemd.tell(systemd.READY)
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/at/all")
    systemd.tell(systemd.READY)


def test_an_abstract_socket_is_told(monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hears:
        hears.bind(f"\0ctrlab-{os.getpid()}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@ctrlab-{os.getpid()}")
        systemd.tell(systemd.READY)
        assert hears.recv(100) == b"READY=1"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_the_unit_as_it_is_shipped_is_valid(tmp_path):
    text = UNIT.read_text()
    assert "/opt/ctrlab/bin/ctrlab serve" in text
    file = tmp_path / UNIT.name
    file.write_text(text.replace("/opt/ctrlab/bin/ctrlab", sys.executable))
    found = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True)
    assert found.returncode == 0 and "ctrlab@" not in found.stderr, found.stderr
