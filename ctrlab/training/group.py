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
    """What one process reads of a run's files: all rows.

    Attributes:
        files: of the data set.
        lists: as of `ctrlab.data.read`.
        batch_size: rows of a step, of all workers together.
        shuffle: rows among which the order is drawn, of all workers together.
        seed: of the order.
        epochs: passes over the training rows; -1 for no end.
        saved: the saver, which knows what was trained on before; None: nothing was.
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
        """Number of steps in all epochs, those that were done before among them; None: no end."""
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
    """A group of one: this process alone. `ctrlab.distributed.join` gives it, or the group of several by `TF_CONFIG`.

    Attributes:
        shard: which worker of how many this process is.
    """

    shard: Shard = whole_batch.WHOLE

    @property
    def first(self) -> bool:
        """Whether it is the worker that talks to the user."""
        return self.shard.index == 0

    def begin(self, spec: Spec) -> None:
        """Connects this process with the others, before TensorFlow runs anything in it.

        Raises:
            CtrlabError: the group can't train what `spec` says, or can't connect.
        """

    def agree(self, settings: Mapping[str, str]) -> None:
        """Waits for the others and compares what must be the same on all of them, by name.

        Raises:
            CtrlabError: a worker has other settings, or has ended.
        """

    def gathered(self, array: np.ndarray) -> list[np.ndarray]:
        """The array [n, ...] of each worker, whose n may differ; dtypes and other sizes are the same. All call it together."""
        return [array]

    def building(self) -> contextlib.AbstractContextManager:
        """A block in which a model is built with its shard of each table."""
        return whole_batch.sharded(self.shard)

    def program(self) -> Callable[[tf.Tensor | None], contextlib.AbstractContextManager]:
        """For a step that is traced later: labels -> the block in which it is traced. All workers ask for theirs in the same
        order. `labels` are those of the examples here, [B, ...]; None in a forward pass outside of training.
        """
        return lambda labels: whole_batch.over(None)

    def reading(self, **what) -> Reading:
        """What this process reads; arguments as of `Reading`."""
        return Reading(**what)

    def checkpoints(self, folder: Path, model, optimizer, **options) -> Checkpoints:
        """The saver of this process; arguments as of `Checkpoints`."""
        return Checkpoints(folder, model, optimizer, **options)

    def telling(self) -> contextlib.AbstractContextManager:
        """A block whose error the others are told: each of them ends with it, too."""
        return contextlib.nullcontext()

    def explained(self) -> contextlib.AbstractContextManager:
        """A block in which the loss of another worker becomes one sentence.

        Raises:
            CtrlabError: another worker has ended, or does not answer.
        """
        return contextlib.nullcontext()


ALONE = Group()
"""The group of a process that trains alone."""
