"""The processes that train one model together. A process that trains alone is a group of one, and takes the same path.

Group                           alone                              `ctrlab.distributed.Workers`
building, program               whole tables, the batch as it is   a shard of each table, a part of the batch
reading                         all rows                           the rows that are dealt out to this worker
checkpoints                     a folder of its own                a folder for each worker, and one manifest
begin, agree, gathered          nothing to do                      by the network
telling, explained              nothing to do                      the error of one worker ends all of them
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.data import DataFiles
from ctrlab.training.checkpoint import Checkpoints
from ctrlab.training.spec import Spec
from ctrlab.whole_batch import Shard


@dataclass(frozen=True)
class Reading:
    """The batches that one process reads from a run's files: all rows.

    Attributes:
        files: the files of the data set.
        lists: as in `ctrlab.data.read`.
        batch_size: rows per step, of all workers together.
        shuffle: size of the shuffle buffer in rows, of all workers together.
        seed: determines the order of the rows.
        epochs: passes over the training rows; -1 for no end.
        saved: the saver, which knows the batches of earlier runs; None: there were none.
    """

    files: DataFiles
    lists: Literal["text", "ragged"]
    batch_size: int
    shuffle: int
    seed: int
    epochs: int
    saved: Checkpoints | None

    @property
    def steps(self) -> int | None:
        """Number of steps in all epochs, including those of earlier runs; None: no end."""
        return None if self.epochs == -1 else self.epochs * self.files.rows // self.batch_size

    def train(self, prefetch: int) -> tf.data.Dataset:
        """The training batches that are left."""
        options = {"shuffle": self.shuffle, "seed": self.seed, "epochs": self.epochs, "drop_remainder": True}
        start = self.saved.position if self.saved else 0
        return self.files.read_train(self.batch_size, **options, start=start, prefetch=prefetch, lists=self.lists)

    def test(self) -> tf.data.Dataset:
        """The batches of the held-out rows."""
        return self.files.read_test(self.batch_size, lists=self.lists)


class Group:
    """A group of one: this process alone. `ctrlab.distributed.join` returns it, or the group of several processes that
    `TF_CONFIG` describes.

    Attributes:
        shard: the index of this worker, and the number of workers.
    """

    shard: Shard = whole_batch.WHOLE

    @property
    def first(self) -> bool:
        """Whether this is the first worker, which shows messages to the user."""
        return self.shard.index == 0

    def begin(self, spec: Spec) -> None:
        """Connects this process with the others, before TensorFlow runs anything in it.

        Raises:
            CtrlabError: the group can't train as `spec` describes, or can't connect.
        """

    def agree(self, settings: Mapping[str, str]) -> None:
        """Waits for the other workers, and compares the named settings, which must be equal on all.

        Raises:
            CtrlabError: a worker has other settings, or has ended.
        """

    def gathered(self, array: np.ndarray) -> list[np.ndarray]:
        """The array [n, ...] of each worker. Only n may differ between workers. All workers must call it together."""
        return [array]

    def building(self) -> contextlib.AbstractContextManager:
        """A context in which a model is built with its shard of each table."""
        return whole_batch.sharded(self.shard)

    def program(self) -> Callable[[tf.Tensor | None], contextlib.AbstractContextManager]:
        """For a step that will be traced: a function from labels to the context in which to trace it. All workers must call it in
        the same order. `labels` are those of this worker's examples, [B, ...]; None in a forward pass outside of training.
        """
        return lambda labels: whole_batch.over(None)

    def reading(self, **what) -> Reading:
        """The reader of this process; arguments as in `Reading`."""
        return Reading(**what)

    def checkpoints(self, folder: Path, model, optimizer, **options) -> Checkpoints:
        """The saver of this process; arguments as in `Checkpoints`."""
        return Checkpoints(folder, model, optimizer, **options)

    def telling(self) -> contextlib.AbstractContextManager:
        """A context whose error is sent to the other workers, so that each of them ends with it, too."""
        return contextlib.nullcontext()

    def explained(self) -> contextlib.AbstractContextManager:
        """A context that turns the loss of another worker into one sentence.

        Raises:
            CtrlabError: another worker has ended, or does not answer.
        """
        return contextlib.nullcontext()


ALONE = Group()
"""The group of a process that trains alone."""
