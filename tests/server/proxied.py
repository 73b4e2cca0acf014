"""The shipped HAProxy file before instances that are started again when they end, as systemd does."""

import contextlib
import re
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from ctrlab.load.client import Target
from ctrlab.load.connection import Connection, NoAnswer

FILE = Path(__file__).parents[2] / "docs" / "deploy" / "haproxy.cfg"
NAMES = ("control-1", "control-2", "new-1", "new-2")
needs_haproxy = pytest.mark.skipif(not shutil.which("haproxy"), reason="HAProxy is not installed: apt-get install haproxy")
PREDICT = "/v1/models/ctr:predict"


def free_ports(count):
    """Ports that nobody has now."""
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in taken]


def on_ports(text, front, ports):
    """The shipped file with other ports: of the front, and {instance: port}. Instances without one are left out."""
    text = text.replace("127.0.0.1:8501", f"127.0.0.1:{front}")
    for name in NAMES:
        line = rf"server {name} 127\.0\.0\.1:\d+"
        text = re.sub(line, f"server {name} 127.0.0.1:{ports[name]}" if name in ports else f"# no {name}", text)
    return text


def until(holds, seconds=30.0):
    """Waits until it holds."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not come to be"
        time.sleep(0.02)


class Instance:
    """A process on a port that is started again when it ends, until `close`."""

    def __init__(self, command, **options):
        self.starts, self._ends, self._command, self._options = 0, False, command, options
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self.process = None
        self._thread.start()

    def _keep(self):
        while not self._ends:
            self.process = subprocess.Popen(self._command, **self._options)
            self.starts += 1
            self.process.wait()
            time.sleep(0.1)

    def close(self):
        self._ends = True
        while self._thread.is_alive():
            if self.process:
                self.process.kill()
            self._thread.join(0.1)


class Proxied:
    """HAProxy before instances.

    Attributes:
        instances: {name: `Instance`}. ports: {name: port}. port, proxy: of HAProxy, and its process.
    """

    def __init__(self, folder, command, names=NAMES, **options):
        self.port, *ports = free_ports(1 + len(names))
        self.ports = dict(zip(names, ports))
        self.instances = {name: Instance(command(port), **options) for name, port in self.ports.items()}
        file = folder / "haproxy.cfg"
        file.write_text(on_ports(FILE.read_text(), self.port, self.ports))
        with open(folder / "haproxy.log", "wb") as log:
            self.proxy = subprocess.Popen(["haproxy", "-f", str(file)], stderr=log, stdout=log)

    def ask(self, body=b"{}", path=PREDICT, method="POST", user="A1", token="", port=None):
        """The answer, with its headers."""
        headers = {"X_User_Id": user} if user else {}
        with Connection(Target("127.0.0.1", port or self.port), timeout=60) as connection:
            return connection.ask(method, path, body if method == "POST" else b"", token, **headers)

    def until_ready(self):
        """Until each instance says so, and HAProxy has seen that."""
        for port in self.ports.values():
            until(lambda port=port: self.ready(port), 120)
        until(lambda: self.ready(self.port, "live"))
        time.sleep(0.5)  # two checks of an instance that is down

    def ready(self, port, what="ready"):
        """Whether HAProxy, or the instance on this port, says so."""
        with contextlib.suppress(NoAnswer):
            return self.ask(path=f"/v2/health/{what}", method="GET", port=port).status == 200
        return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proxy.terminate()
        self.proxy.wait(30)
        for each in self.instances.values():
            each.close()
