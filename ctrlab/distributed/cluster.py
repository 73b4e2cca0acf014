"""The workers of a training: processes that TensorFlow connects, each of which knows its place from `TF_CONFIG`."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import tensorflow as tf

from ctrlab import optimizations, whole_batch
from ctrlab.data.dealing import Dealing
from ctrlab.distributed import collectives, engine
from ctrlab.distributed.place import CONFIG, Place, given_place
from ctrlab.distributed.shared_step import SharedStep
from ctrlab.errors import CtrlabError, WorkerLost
from ctrlab.training.checkpoint import Checkpoints
from ctrlab.training.group import ALONE, Group, Reading
from ctrlab.training.spec import Spec
from ctrlab.whole_batch import Shard

PROBE_SECONDS = 1.0


class WorkerEnded(CtrlabError):
    """Another worker ended with an error, so this one ends too; the sentence is the other worker's."""


@dataclass(frozen=True)
class Dealt(Reading):
    """The batches that one of several workers reads: the rows that are dealt out to it, in the same number of steps for all."""

    shard: Shard

    @property
    def steps(self) -> int | None:
        left = self._dealing.steps
        return None if left is None else sum(steps for _, steps in self._dealing.history) + left

    def train(self, prefetch: int) -> tf.data.Dataset:
        return self.files.read_train_dealt(self._dealing, self.shard.index, prefetch=prefetch, lists=self.lists)

    def test(self) -> tf.data.Dataset:
        dealing = Dealing(self.files.test_rows, self.batch_size, self.shard.count)
        return self.files.read_test_dealt(dealing, self.shard.index, lists=self.lists)

    @cached_property
    def _dealing(self) -> Dealing:
        history = self.saved.history if self.saved else ()
        return Dealing(self.files.rows, self.batch_size, self.shard.count, self.shuffle, self.seed, self.epochs, history)


class Workers(Group):
    """This process among the workers of a training.

    Args:
        start_seconds: the longest wait for all workers to connect.
    Attributes:
        shard: the index of this worker, and the number of workers.
        addresses: host:port of each.
        rows_as: see `SharedStep`; for training steps.
    """

    def __init__(self, place: Place, start_seconds: int = engine.START_SECONDS):
        self._start_seconds = start_seconds
        self.addresses, self.shard = place.addresses, Shard(place.index, len(place.addresses))
        self.rows_as = tf.float32
        self._programs = itertools.count(1)  # 0 has the keys of `gathered`
        self._connected = self.shard.whole

    def begin(self, spec: Spec) -> None:
        if spec.follow or spec.validation is not None:
            option = "validation" if spec.follow is None else "a followed folder"
            raise CtrlabError(
                f"Several workers train on whole data sets, without {option}: leave it out, or train in one process."
            )
        if spec.device == "gpu" and not self.shard.whole:
            raise CtrlabError(
                'Several workers train on the CPU; received the device "gpu": leave it out, or train in one process.'
            )
        narrow = "bf16_exchange" in optimizations.of_level(spec.optimizations, "run")
        self.rows_as = tf.bfloat16 if narrow else tf.float32
        self.connect()

    def connect(self) -> None:
        """Opens this worker's port. Call it after setting the threads, and before TensorFlow runs anything.

        Raises:
            CtrlabError: TensorFlow is in use already; the port is taken. If a worker does not connect, this process is killed
                with a sentence on stderr, because TensorFlow would wait forever.
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
        for index, others in enumerate(map(json.loads, self.told(json.dumps(dict(settings))))):
            for name in settings | others:
                if others.get(name) != settings.get(name):
                    raise CtrlabError(
                        f"All workers train the same; {name} is {others.get(name, 'missing')} on worker {index} and "
                        f"{settings.get(name, 'missing')} on worker {self.shard.index}: start them by the same command."
                    )

    def told(self, text: str) -> list[str]:
        """The value that each worker passes, in the workers' order. All must call it together."""
        return [each.tobytes().decode() for each in self.gathered(np.frombuffer(text.encode(), np.uint8))]

    def missing(self) -> list[int]:
        """The other workers whose port is closed: their processes have ended."""
        return [i for i, address in enumerate(self.addresses) if i != self.shard.index and not _answers(address)]

    def program(self) -> Callable[[tf.Tensor | None], contextlib.AbstractContextManager]:
        number = next(self._programs)

        def over(labels):
            if self.shard.whole:
                return whole_batch.over(None)
            if labels is None:
                return whole_batch.over(SharedStep(self.shard, number))
            return whole_batch.over(SharedStep(self.shard, number, tf.shape(labels)[0], self.rows_as))

        return over

    def reading(self, **what) -> Dealt:
        return Dealt(**what, shard=self.shard)

    def checkpoints(self, folder, model, optimizer, **options) -> Checkpoints:
        from ctrlab.distributed.checkpoints import SharedCheckpoints

        return SharedCheckpoints(self, folder, model, optimizer, **options)

    def gathered(self, array: np.ndarray) -> list[np.ndarray]:
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
        """[workers, n]: one row from each worker."""
        placed = np.zeros((self.shard.count, len(row)), row.dtype)
        placed[index] = row
        return collectives.summed(tf.constant(placed), self.shard.count, key).numpy()

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
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
        """A context that turns the loss of another worker into one sentence: its own error, or else that it has ended.

        Raises:
            WorkerEnded: another worker has reported why it ends. WorkerLost: it has ended, or does not answer.
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


def join() -> Group:
    """The workers that `TF_CONFIG` describes, of which this process is one; without `TF_CONFIG`, the group of this process alone.

    Raises:
        CtrlabError: as in `given_place`.
    """
    place = given_place()
    return Workers(place) if place else ALONE


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with contextlib.closing(socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS)):
            return True
    except (OSError, ValueError):
        return False
