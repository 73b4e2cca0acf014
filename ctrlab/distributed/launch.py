"""Starts the workers of a training as processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

from ctrlab.distributed.place import HEARTBEAT_SECONDS, Place, threads_of
from ctrlab.errors import CtrlabError, WorkerLost

NOTICE_SECONDS = HEARTBEAT_SECONDS + 1.0
"""Seconds that workers have to end by themselves after another has ended."""
GRACE_SECONDS = 6.0
"""Seconds that workers have to end after SIGTERM."""
POLL_SECONDS = 0.05


def local(count: int, command: Sequence[str]) -> int:
    """Runs `command` in `count` processes that train together.

    The first worker has this process's terminal. Of the other workers, only the last output of the one that failed first is
    shown. If one fails, the rest end, too; they also end if this process gets SIGTERM.

    Returns:
        The exit code of the first worker; 143 if this process got SIGTERM.
    Raises:
        WorkerLost: a worker was ended by a signal. CtrlabError: a worker failed.
    """
    addresses = tuple(f"127.0.0.1:{port}" for port in free_ports(count))
    shared = threads_of(max(1, (os.cpu_count() or 1) // count))
    started: list[_Worker] = []
    with _ending(started), _passing_on(started) as told:
        for index in range(count):
            environment = shared | dict(os.environ) | Place(addresses, index).config()
            started.append(_Worker(index, command, environment))
        first = _first_to_fail(started)
        if first is None:
            return 0
        _wait(started, GRACE_SECONDS if told else NOTICE_SECONDS)
    if told:
        return 128 + told[0]  # as shells say it
    if by := _signal(first):
        raise WorkerLost(
            f"Worker {first.index} was ended by {by.name}, and the others with it: start them again; "
            "with --resume they go on from the last checkpoint."
        )
    if first.index and started[0].code not in (1, first.code):  # else the first worker has said what the other ended with
        kind = WorkerLost if first.code == WorkerLost.exit_code else CtrlabError
        raise kind(f"Worker {first.index}: {first.said or f'ended with exit code {first.code}'}")
    return started[0].code


def free_ports(count: int) -> list[int]:
    """Ports of this machine on which nobody listens. Each worker opens its own port a moment later."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class _Worker:
    """The process of one worker."""

    def __init__(self, index: int, command: Sequence[str], environment: dict[str, str]):
        self.index = index
        own = {} if index == 0 else {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, env=environment, text=True, **own)
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self._lines = [*self._lines[-50:], line.rstrip()]

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def code(self) -> int | None:
        return self._process.poll()

    @property
    def said(self) -> str:
        """The last lines that the worker wrote. An error of ours is one line."""
        self._reader.join(1)
        lines = [line for line in self._lines if line.strip()]
        ours = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
        return (ours or lines or [""])[-1]

    def end(self, by: int) -> None:
        if self.running:
            self._process.send_signal(by)

    def kill(self) -> None:
        self.end(signal.SIGKILL)
        self._process.wait()


def _wait(workers: Sequence[_Worker], seconds: float) -> None:
    """Waits until all workers have ended, at most this many seconds."""
    until = time.monotonic() + seconds
    while any(worker.running for worker in workers) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def _ending(workers: Sequence[_Worker]) -> Iterator[None]:
    """A context at whose end no worker is left: all get SIGTERM, and those that still run are killed."""
    try:
        yield
    finally:
        for worker in workers:
            worker.end(signal.SIGTERM)
        try:
            _wait(workers, GRACE_SECONDS)
        finally:
            for worker in workers:
                worker.kill()


def _first_to_fail(workers: Sequence[_Worker]) -> _Worker | None:
    """Waits for the first worker that fails; None when all have ended with success."""
    while True:
        running = False
        for worker in workers:
            running |= worker.running
            if worker.code:
                # What the death of one does to the others comes later, but may be seen first.
                time.sleep(POLL_SECONDS)
                killed = [w for w in workers if _signal(w)]
                return (killed or [worker])[0]
        if not running:
            return None
        time.sleep(POLL_SECONDS)


def _signal(worker: _Worker) -> signal.Signals | None:
    """The signal that ended a process: at once, or after its clean-up, with an exit code as shells write it."""
    code = worker.code or 0
    number = -code if code < 0 else code - 128
    return signal.Signals(number) if number in set(signal.Signals) else None


@contextlib.contextmanager
def _passing_on(workers: Sequence[_Worker]) -> Iterator[list[int]]:
    """A context that passes SIGTERM on to the workers, and adds it to the list. Ctrl-C reaches the workers through the
    terminal.
    """
    told: list[int] = []

    def pass_on(number, frame):
        told.append(number)
        for worker in workers:
            worker.end(number)

    if threading.current_thread() is not threading.main_thread():
        yield told
        return
    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield told
    finally:
        signal.signal(signal.SIGTERM, before)
