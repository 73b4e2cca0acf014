"""Real instances of `ctrlab serve` for the lesson on fleets: each has a thread that starts it again when its process ends.

    starting --says that it is ready--> ready --a connection to it broke--> suspect --says that it is ready--> ready

In each state its process may end: then it is `crashed`, and soon `starting` again. The lesson needs to see each of these
steps. At work, systemd starts processes again, and HAProxy chooses among them (docs/several_servers.md).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.load.answers import HttpAnswer
from ctrlab.load.client import Target
from ctrlab.load.connection import Connection, NoAnswer

LISTENS = re.compile(r"HTTP on http://127\.0\.0\.1:([0-9]+)")
LOOK_SECONDS = 0.05
"""Seconds between two looks at a process."""
AGAIN_SECONDS = 0.25
"""Seconds from the end of a process to the start of the next one."""
PATIENCE_SECONDS = 30.0
"""Seconds that an instance has to end after the signal to stop."""


class State(StrEnum):
    """The state of an instance."""

    STARTING = "starting"
    READY = "ready"
    SUSPECT = "suspect"
    CRASHED = "crashed"
    STOPPED = "stopped"


@dataclass(eq=False)
class Instance:
    """One of several servers. It keeps its name when it gets a new process.

    Attributes:
        inside: number of requests in work. port, pid: those of its process; 0: it has none yet.
    """

    name: str
    state: State = State.STARTING
    inside: int = 0
    port: int = 0
    pid: int = 0


class Servers:
    """This number of `ctrlab serve` processes, which start at once and run until `close`.

    Args:
        command: the command that starts one of them on its own port. token: the token that they take.
    Attributes:
        all: {name: the instance}.
    """

    def __init__(self, command: Sequence[str], count: int, token: str):
        self.all = {f"all-{number}": Instance(f"all-{number}") for number in range(1, count + 1)}
        self._command, self._token = command, token
        self._changed, self._ends = threading.Condition(), threading.Event()
        self._problem: CtrlabError | None = None
        self._threads = [threading.Thread(target=self._keep, args=(each,), daemon=True) for each in self.all.values()]
        for thread in self._threads:
            thread.start()

    def states(self) -> list[State]:
        return [each.state for each in self.all.values()]

    def wait_until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Waits until the condition holds; it is checked whenever an instance has changed its state. Returns whether it holds in
        time.

        Raises:
            CtrlabError: an instance says that it can't start.
        """
        with self._changed:
            found = self._changed.wait_for(lambda: self._problem or holds(), max(0.0, seconds))
        if self._problem:
            raise self._problem
        return bool(found)

    def send(self, name: str, path: str, body: bytes) -> HttpAnswer:
        """An instance's answer to a request; an instance without an answer becomes `suspect`.

        Raises:
            NoAnswer: there is no answer.
        """
        instance = self.all[name]
        port = instance.port
        with self._changed:
            instance.inside += 1
        try:
            with Connection(Target("127.0.0.1", port)) as connection:
                return connection.ask("POST", path, body, self._token, Content_Type="application/json")
        except NoAnswer:
            if instance.port == port and instance.state is State.READY:  # else it is another process already
                self._become(instance, State.SUSPECT)
            raise
        finally:
            with self._changed:
                instance.inside -= 1

    def kill(self, name: str) -> None:
        """Ends an instance's process at once, as a machine's failure does."""
        os.kill(self.all[name].pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends all instances."""
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _become(self, instance: Instance, state: State) -> None:
        with self._changed:
            instance.state = state
            self._changed.notify_all()

    def _keep(self, instance: Instance) -> None:
        """Runs one process after the other. An instance whose process ends by itself before it was ever ready is considered
        unable to start.
        """
        was_ready = False
        while not self._ends.is_set():
            self._become(instance, State.STARTING)
            with tempfile.NamedTemporaryFile(prefix="ctrlab-instance-") as log:
                process = self._begin(log)
                instance.pid = process.pid
                while process.poll() is None and not self._ends.wait(LOOK_SECONDS):
                    if instance.state is not State.READY and self._is_ready(instance, Path(log.name)):
                        was_ready = True
                        self._become(instance, State.READY)
                if self._ends.is_set():
                    break
                instance.port = 0
                self._become(instance, State.CRASHED)
                if not was_ready and process.returncode >= 0:
                    said = Path(log.name).read_text(errors="replace").strip()[-500:]
                    self._problem = CtrlabError(f"Instance {instance.name} can't start: {said}")
                    self._become(instance, State.STOPPED)
                    return
            self._ends.wait(AGAIN_SECONDS)
        self._become(instance, State.STOPPED)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_SECONDS)
        process.kill()
        process.wait()

    def _begin(self, log) -> subprocess.Popen:
        environment = os.environ | {"CTRLAB_TOKEN": self._token, "TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "1000"}
        environment.pop("FORCE_COLOR", None)  # notebooks set it, and the port would be coloured
        return subprocess.Popen(
            [sys.executable, "-c", BEGIN, str(os.getpid()), *self._command],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in a terminal is for the notebook alone
        )

    def _is_ready(self, instance: Instance, log: Path) -> bool:
        if not instance.port:
            found = LISTENS.search(log.read_text(errors="replace"))
            instance.port = int(found[1]) if found else 0
        with suppress(NoAnswer), Connection(Target("127.0.0.1", instance.port), timeout=1.0) as connection:
            return bool(instance.port) and connection.ask("GET", "/v2/health/ready").status == 200
        return False


BEGIN = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
os.getppid() == int(sys.argv[1]) or sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""A program that becomes a command which gets a signal to stop when its parent process ends for any reason (PR_SET_PDEATHSIG)."""
