"""The protocol between a measurement and its worker processes: one JSON object per line, a request on stdin, an answer on stdout.

    {"do": "open", ...job}          -> the session's open()
    {"do": name, ...arguments}      -> the session's method of that name

The answer {"problem": sentence} is a CtrlabError of the worker. A worker ends when its stdin is closed. TensorFlow fixes its
thread counts at its first use, and two models in one process share caches and memory. So each variant of a race has its own
process.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence

from ctrlab.errors import CtrlabError


class WorkerDied(CtrlabError):
    """A worker process ended before it answered."""


class Worker:
    """The measuring side of one worker process. The process is stopped between requests, so that only one works at a time.

    As a context manager it ends the process. Ctrl-C reaches only the measuring process, which then ends the workers.

    Args:
        what: the worker's task, for the message if it dies.
        environment: environment variables, in addition to this process's.
        stops: whether the process is stopped between requests; False for one that must send signs of life to others.
    """

    def __init__(self, what: str, command: Sequence[str], environment: Mapping[str, str] | None = None, stops: bool = True):
        self.what, self._stops = what, stops
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __exit__)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | dict(environment or {}),
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception):
        self._process.kill()  # also ends a stopped process
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            with contextlib.suppress(OSError):
                stream.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, **details) -> dict:
        """Sends a request and waits for its answer.

        Raises:
            WorkerDied: the process ended. CtrlabError: an error of the worker.
        """
        try:
            os.kill(self.pid, signal.SIGCONT)
            self._process.stdin.write(json.dumps({"do": do} | details) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            answer = json.loads(line) if line.endswith("\n") else None
        except OSError:
            answer = None
        if answer is None:
            raise WorkerDied(self._death_report())
        if "problem" in answer:
            raise CtrlabError(answer["problem"])
        if self._stops:
            os.kill(self.pid, signal.SIGSTOP)
        return answer

    def _death_report(self) -> str:
        code = self._process.wait()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._log.seek(0)
        last = self._log.read().decode(errors="replace").strip().rpartition("\n")[2]
        return f"The worker of {self.what} ended before its work was done ({how}). {last}".strip()


def serve(open_session: Callable) -> None:
    """The worker's side: answers requests until stdin is closed.

    Args:
        open_session: makes a session from a job: an object with a method `open` and one method per request.
    """
    _die_with_parent()
    # Only answers go to the real stdout; what libraries print goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session = None
    for line in sys.stdin:
        request = json.loads(line)
        do = request.pop("do")
        try:
            if do == "open":
                session = open_session(**request)
                answer = session.open()
            else:
                answer = getattr(session, do)(**request)
        except CtrlabError as problem:
            answer = {"problem": str(problem)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _die_with_parent() -> None:
    """Asks Linux to kill this process when its parent ends for any reason. Elsewhere only the end of stdin ends it."""
    if sys.platform == "linux":
        parent_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)
