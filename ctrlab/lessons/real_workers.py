"""Workers of a training that a notebook starts and tells what to do: processes with a core each, in lessons.

    workers = RealWorkers(2)                      they start while the notebook goes on
    losses = workers.run(trained, ask, merge)     each of them calls trained(member, ask, merge)

A learner's own function goes to them, with what it uses of the notebook, see `ctrlab.lessons.shipped`.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait

from ctrlab.distributed.launch import free_ports
from ctrlab.distributed.place import Place
from ctrlab.errors import CtrlabError
from ctrlab.lessons.shipped import packed

Told = Callable[[int, float, Mapping[str, float]], None]
"""(worker, x, {what: number}): how far a worker is."""
AGAIN = "run the cell again that starts the workers"


class Member:
    """A worker, as what runs in it sees it.

    Attributes:
        workers: the `ctrlab.distributed.Workers` that it is one of, connected.
        kept: what a task leaves for the next one.
    """

    def __init__(self, workers, connection: Connection):
        self.workers, self.kept, self._connection = workers, {}, connection

    def tell(self, x: float, **numbers: float) -> None:
        """Says to the notebook how far it is: {what: number} at `x`."""
        self._connection.send_bytes(packed(("told", (x, numbers))))


class RealWorkers:
    """Processes of this machine that are connected as a training's workers, each with a core of its own where there are enough.

    Making another one ends those of before. They end with this process.
    """

    _last: RealWorkers | None = None

    def __init__(self, count: int = 2):
        if RealWorkers._last:  # the cell that makes it is run again
            RealWorkers._last.close()
        RealWorkers._last = self
        atexit.register(self.close)
        self.count = count
        addresses = tuple(f"127.0.0.1:{port}" for port in free_ports(count))
        cores = sorted(os.sched_getaffinity(0))
        spawn = multiprocessing.get_context("spawn")
        self._processes, self._connections = [], []
        for index in range(count):
            ours, theirs = spawn.Pipe()
            core = cores[index] if count <= len(cores) else None
            process = spawn.Process(target=_serve, args=(theirs, Place(addresses, index), core), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._connections.append(ours)

    def run(self, task: Callable, *arguments, on: Sequence[int] | None = None, told: Told | None = None) -> list:
        """What `task(member, *arguments)` returns in each worker.

        Args:
            on: the workers that run it, by number; None: all.
            told: called when one tells how far it is.
        Raises:
            CtrlabError: one has failed, or its process has ended. All workers end then.
        """
        members = list(range(self.count)) if on is None else list(on)
        try:
            for index in members:
                self._send(index, packed((task, arguments)))
            return self._collected(members, told or (lambda *_: None))
        except BaseException:
            self.close()
            raise

    def kill(self, index: int) -> None:
        """Ends a worker's process at once, as a machine's failure does."""
        self._processes[index].kill()

    def close(self) -> None:
        """Ends all."""
        atexit.unregister(self.close)
        if RealWorkers._last is self:
            RealWorkers._last = None
        for process, connection in zip(self._processes, self._connections):
            process.kill()  # they have nothing to lose, and would wait for each other
            process.join()
            connection.close()

    def _send(self, index: int, data: bytes) -> None:
        try:
            self._connections[index].send_bytes(data)
        except OSError:
            raise CtrlabError(f"Worker {index} has ended: {AGAIN}.") from None

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
                    raise CtrlabError(f"Worker {index}: {said}")
                else:
                    results[index] = said
                    del waiting[connection]
        return [results[index] for index in members]


@contextlib.contextmanager
def live_charts(lab, titles: Mapping[str, str]) -> Iterator[Told]:
    """A chart for each number that workers tell, {its name: the chart's title, with the unit behind a comma}; a curve for each
    worker."""
    with contextlib.ExitStack() as held:
        parts = {name: title.rsplit(", ", 1) for name, title in titles.items()}
        charts = {name: held.enter_context(lab.live_chart(each[0], each[-1])) for name, each in parts.items()}

        def told(worker: int, x: float, numbers: Mapping[str, float]) -> None:
            for name, chart in charts.items():
                chart.add(f"worker {worker}", x, numbers[name])

        yield told


def _serve(connection: Connection, place: Place, core: int | None) -> None:
    """The life of a worker's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # to interrupt is the notebook's
    for stream in (1, 2):  # what TensorFlow logs when others end would be shown below the notebook's cells
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    if core is not None:
        os.sched_setaffinity(0, {core})
    os.environ |= place.config() | {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"}
    from ctrlab.distributed.cluster import Workers

    member = Member(Workers(place), connection)
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
            said = packed(("failed", f"{type(problem).__name__}: {str(problem).strip() or 'no message'}"))
        connection.send_bytes(said)
