"""The workers of a training: processes that TensorFlow connects, each of which knows its place by `TF_CONFIG`."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.distributed import collectives, engine
from ctrlab.distributed.place import CONFIG, Place, given_place
from ctrlab.distributed.shared_step import SharedStep
from ctrlab.errors import CtrlabError, WorkerLost
from ctrlab.whole_batch import Shard

PROBE_SECONDS = 1.0


class WorkerEnded(CtrlabError):
    """What another worker ended with, and so this one."""


class Workers:
    """This process among the workers of a training.

    Args:
        start_seconds: how long it waits for all workers to come.
    Attributes:
        shard: which worker of how many it is.
        addresses: host:port of each.
        rows_as: see `SharedStep`; of training steps.
    """

    def __init__(self, place: Place, start_seconds: int = engine.START_SECONDS):
        self._start_seconds = start_seconds
        self.addresses, self.shard = place.addresses, Shard(place.index, len(place.addresses))
        self.rows_as = tf.float32
        self._programs = itertools.count(1)  # 0 has the keys of `gathered`
        self._connected = self.shard.whole

    @property
    def first(self) -> bool:
        """Whether it is the worker that talks to the user."""
        return self.shard.index == 0

    def connect(self) -> None:
        """Opens this worker's port. Call it after the settings of threads, before TensorFlow runs anything.

        Raises:
            CtrlabError: TensorFlow is in use already; the port is taken. If a worker does not come, this process is killed with a
                sentence on stderr, for TensorFlow's wait has no end.
        """
        if self._connected:
            return
        others = ", ".join(address for i, address in enumerate(self.addresses) if i != self.shard.index)
        late = (
            f"All workers come within {self._start_seconds:g} seconds; worker {self.shard.index} waited in vain for one of "
            f"{others}: look whether all run and can be reached, and start all again."
        )
        try:
            engine.connect(self.shard.count, self._start_seconds, late)
        except RuntimeError as error:
            raise CtrlabError(f"Workers connect before TensorFlow runs anything in their process: {error}") from None
        except tf.errors.OpError as error:
            own = self.addresses[self.shard.index]
            raise CtrlabError(f"Worker {self.shard.index} can't have its port, {own}: name another in {CONFIG}.") from error
        self._connected = True

    def agree(self, settings: Mapping[str, str]) -> None:
        """Waits for the others and compares what must be the same on all of them, by name.

        Raises:
            CtrlabError: a worker has other settings, or has ended.
        """
        for index, others in enumerate(map(json.loads, self.told(json.dumps(dict(settings))))):
            for name in settings | others:
                if others.get(name) != settings.get(name):
                    raise CtrlabError(
                        f"All workers train the same; {name} is {others.get(name, 'missing')} on worker {index} and "
                        f"{settings.get(name, 'missing')} on worker {self.shard.index}: start them by the same command."
                    )

    def told(self, text: str) -> list[str]:
        """What each worker tells, in their order. All call it together."""
        return [each.tobytes().decode() for each in self.gathered(np.frombuffer(text.encode(), np.uint8))]

    def missing(self) -> list[int]:
        """The other workers whose port is closed: their processes have ended."""
        return [i for i, address in enumerate(self.addresses) if i != self.shard.index and not _answers(address)]

    def building(self) -> contextlib.AbstractContextManager:
        """A block in which a model is built with its shard of each table."""
        return whole_batch.sharded(self.shard)

    def program(self) -> Callable[[tf.Tensor | None], contextlib.AbstractContextManager]:
        """For a step that is traced later: rows -> the block in which it is traced. All workers ask for theirs in the same order.

        `rows` is the number of examples here, int scalar; None in a forward pass outside of training.
        """
        number = next(self._programs)

        def over(rows):
            rows_as = tf.float32 if rows is None else self.rows_as
            return whole_batch.over(None if self.shard.whole else SharedStep(self.shard, number, rows, rows_as))

        return over

    def checkpoints(self, folder, model, optimizer, **options):
        """The saver of this worker: see `SharedCheckpoints`."""
        from ctrlab.distributed.checkpoints import SharedCheckpoints

        return SharedCheckpoints(self, folder, model, optimizer, **options)

    def gathered(self, array: np.ndarray) -> list[np.ndarray]:
        """The array [n, ...] of each worker, whose n may differ; dtypes and other sizes are the same. All call it together."""
        if self.shard.whole:
            return [array]
        data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        with self.explained():
            sizes = self._summed(self.shard.index, np.array([data.size]), 1)[:, 0]
            size, number = (int(each) for each in collectives.padded(int(-(-sizes.max() // 4))))
            words = np.zeros(size, np.int32)
            words.view(np.uint8)[: data.size] = data
            found = self._summed(self.shard.index, words, 2 + number)
        parts = [row.view(np.uint8)[:n] for row, n in zip(found, sizes)]
        return [part.view(array.dtype).reshape(-1, *array.shape[1:]) for part in parts]

    def _summed(self, index: int, row: np.ndarray, key: int) -> np.ndarray:
        """[workers, n]: the row of each worker."""
        placed = np.zeros((self.shard.count, len(row)), row.dtype)
        placed[index] = row
        return collectives.summed(tf.constant(placed), self.shard.count, key).numpy()

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """A block whose error the others are told: each of them ends with it, too."""
        try:
            yield
        except (WorkerEnded, WorkerLost):
            raise
        except Exception as error:
            if self._connected and not self.shard.whole:
                engine.end_all(str(error) or type(error).__name__)
            raise

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """A block in which the loss of another worker becomes one sentence: what it said, or else that it is gone.

        Raises:
            WorkerEnded: another worker has said why it ends. WorkerLost: it is gone, or does not answer.
        """
        try:
            yield
        except tf.errors.OpError as error:
            if not re.search("[Cc]ollective|[Cc]oordination", error.message):
                raise
            if said := engine.sentence_in(error.message):
                raise WorkerEnded("Worker {}: {}".format(*said)) from error
            raise WorkerLost(f"{self._gone(str(error))}: start all workers again; with --resume they go on.") from error

    def _gone(self, said: str) -> str:
        lost = self.missing()
        named = lost or [
            int(index) for index in dict.fromkeys(re.findall(r"/task:(\d+)", said)) if int(index) != self.shard.index
        ]
        if not named and self.shard.index:
            named = [0]  # it listens to the heartbeats, and would have said whose are missed
        if not named:
            return f"A worker of {', '.join(self.addresses[1:])} is gone or does not answer"
        who = " and ".join(f"{index} ({self.addresses[index]})" for index in named)
        state = "gone" if lost else "not answering"
        return f"Worker {who} is {state}" if len(named) == 1 else f"Workers {who} are {state}"


def join() -> Workers | None:
    """The workers of which this process is one by `TF_CONFIG`; None without one.

    Raises:
        CtrlabError: as of `given_place`.
    """
    place = given_place()
    return place and Workers(place)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with contextlib.closing(socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS)):
            return True
    except (OSError, ValueError):
        return False
