"""Workers of a training that a notebook starts and controls: processes of this machine with one core each.

    workers = LocalWorkers(2)                     they start while the notebook goes on
    losses = workers.run(trained, ask, merge)     each of them calls trained(member, ask, merge)

cloudpickle sends a notebook's own functions to them, with everything that these use from the notebook.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait

import cloudpickle

from ctrlab.distributed.launch import free_ports
from ctrlab.distributed.place import Place, threads_of
from ctrlab.errors import CtrlabError

Told = Callable[[int, float, Mapping[str, float]], None]
"""A function of (worker, x, {name: number}) that receives a worker's progress."""
RAISED = re.compile(r"^[\w.]*(?:Error|Exception): .*\S", re.MULTILINE)
"""Finds an exception's own message in the text that TensorFlow writes around it."""

PROGRAM = """
import sys
from multiprocessing.connection import Connection
from ctrlab.distributed import local_workers
local_workers.serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
"""
"""The program that a worker's process runs. `multiprocessing` is not used, because it would try to import the notebook."""
ONE_THREAD = threads_of(1)
NO_CORE = -1
AGAIN = "run the cell again"


def packed(thing: object) -> bytes:
    """Packs a function, or an object with functions, into bytes, even if a notebook defines them. `pickle.loads` of the same
    Python version reads them.

    Raises:
        CtrlabError: the function uses something that can't be pickled.
    """
    try:
        return cloudpickle.dumps(thing)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as problem:
        raise CtrlabError(
            f"What a function uses goes with it to other processes, and this can't: {problem}. Give it to the function as an "
            "argument, or leave it out."
        ) from problem


def rows_of(rows: int, index: int, shares: Sequence[int]) -> slice:
    """The slice of a worker, if this number of rows is divided in these proportions: [1, 1] are two halves."""
    begin, end = (rows * sum(shares[:n]) // sum(shares) for n in (index, index + 1))
    return slice(begin, end)


def part(batch: tuple, index: int, shares: Sequence[int]) -> tuple:
    """A worker's rows of a batch (features, labels)."""
    features, labels = batch
    rows = rows_of(len(labels), index, shares)
    return {name: column[rows] for name, column in features.items()}, labels[rows]


class Member:
    """A worker, as seen by the code that runs in it.

    Attributes:
        workers: the connected `ctrlab.distributed.Workers` to which it belongs.
        kept: values that a task leaves for the next one.
    """

    def __init__(self, workers, connection: Connection):
        self.workers, self.kept, self._connection = workers, {}, connection
        self._held = contextlib.ExitStack()

    def hold(self, block: contextlib.AbstractContextManager):
        """Enters a context that lasts as long as the process."""
        return self._held.enter_context(block)

    def tell(self, x: float, **numbers: float) -> None:
        """Sends its progress to the notebook: {name: number} at `x`."""
        self._connection.send_bytes(packed(("told", (x, numbers))))


class LocalWorkers:
    """Processes of this machine that are connected as a training's workers, each with its own core if there are enough.

    Only the workers that were made last run; they end with this process. If they have ended, by a failure, an interrupt or a
    kill, `run` starts new ones, which have kept nothing. So a cell that failed can simply be run again.
    """

    _last: LocalWorkers | None = None

    def __init__(self, count: int = 2):
        self.count = count
        self._start()

    def _start(self) -> None:
        if LocalWorkers._last:  # the cell that makes it is run again
            LocalWorkers._last.close()
        LocalWorkers._last = self
        atexit.register(self.close)
        count, addresses = self.count, tuple(f"127.0.0.1:{port}" for port in free_ports(self.count))
        cores = sorted(os.sched_getaffinity(0))
        self._processes, self._connections = [], []
        for index in range(count):
            ours, theirs = multiprocessing.Pipe()
            environment = os.environ | Place(addresses, index).config() | ONE_THREAD
            core = cores[index] if count <= len(cores) else NO_CORE
            command = [sys.executable, "-c", PROGRAM, str(theirs.fileno()), str(core)]
            # What TensorFlow logs when others end would be shown below the notebook's cells.
            quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            # In a session of its own, since to interrupt is the notebook's.
            process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], start_new_session=True, **quiet)
            theirs.close()
            self._processes.append(process)
            self._connections.append(ours)

    def run(self, task: Callable, *arguments, on: Sequence[int] | None = None, told: Told | None = None) -> list:
        """Runs `task(member, *arguments)` in each worker, and returns the results.

        Args:
            on: the workers that run it, by number; None: all.
            told: called when a worker sends its progress.
        Raises:
            CtrlabError: a worker has failed, or its process has ended. All workers end then.
        """
        if LocalWorkers._last is not self:
            self._start()
        members = list(range(self.count)) if on is None else list(on)
        try:
            for index in members:
                self._send(index, packed((task, arguments)))
            return self._collected(members, told or (lambda *_: None))
        except BaseException:
            self.close()
            raise

    def kill(self, index: int) -> None:
        """Kills a worker's process, like a failure of its machine."""
        self._processes[index].kill()

    def close(self) -> None:
        """Ends all workers."""
        atexit.unregister(self.close)
        if LocalWorkers._last is self:
            LocalWorkers._last = None
        for process, connection in zip(self._processes, self._connections):
            process.kill()  # they have nothing to lose, and would wait for each other
            process.wait()
            connection.close()

    def _send(self, index: int, data: bytes) -> None:
        try:
            self._connections[index].send_bytes(data)
        except OSError:
            raise CtrlabError(f"Worker {index} has ended, and the others with it: {AGAIN}.") from None

    def _collected(self, members: Sequence[int], told: Told) -> list:
        results, waiting = {}, {self._connections[index]: index for index in members}
        while waiting:
            for connection in wait(list(waiting)):
                index = waiting[connection]
                try:
                    kind, said = pickle.loads(connection.recv_bytes())
                except (EOFError, OSError):
                    raise CtrlabError(f"Worker {index} has ended, and the others with it: {AGAIN}.") from None
                if kind == "told":
                    told(index, *said)
                elif kind == "failed":
                    raised, rest = said
                    raise CtrlabError(f"Worker {index}: {raised}\nAll workers have ended: mend this, then {AGAIN}.{rest}")
                else:
                    results[index] = said
                    del waiting[connection]
        return [results[index] for index in members]


def serve(connection: Connection, core: int) -> None:
    """Runs in a worker's process, whose place is given by `TF_CONFIG`, until the notebook ends it."""
    if core != NO_CORE:
        os.sched_setaffinity(0, {core})
    from ctrlab.distributed import join

    member = Member(join(), connection)
    member.workers.connect()
    while True:
        try:
            data = connection.recv_bytes()
        except EOFError:  # the notebook is gone
            os._exit(0)
        try:
            task, arguments = pickle.loads(data)
            said = packed(("done", task(member, *arguments)))
        except Exception as problem:
            said = packed(("failed", _told_of(problem)))
        connection.send_bytes(said)


def _told_of(problem: Exception) -> tuple[str, str]:
    """The line with the exception's message, and the other lines. TensorFlow's error of a NumPy function ends with the
    function's own error.
    """
    whole = f"{type(problem).__name__}: {str(problem).strip() or 'no message'}"
    found = RAISED.findall(whole)
    raised = found[-1] if found else whole.splitlines()[0]
    return raised, "" if raised == whole else f"\n\n{whole}"
