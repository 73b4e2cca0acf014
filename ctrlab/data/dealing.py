"""Deals the rows of each epoch out to several workers: each row to one of them, once, in the same number of steps for all.

    epoch      | 0 .......................................................... rows |     over row groups and files, in their order
    workers    |   worker 0    |   worker 1    |   worker 2    |     a range each, in proportion to its part of a batch
    steps      |b b b b b b .|  |b b b b b b .|                      the last batches are smaller, down to none; none is left out

A worker decodes the row groups of its own range; one at a border is decoded by both. Within its range a worker's rows are
shuffled by windows, anew in each epoch. All of this follows from numbers that every worker knows, so none has to ask another.

A training may continue with another number of workers in the middle of an epoch. The same numbers tell which rows the earlier
workers took; the remaining rows of the epoch are dealt out again.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab.errors import CtrlabError


@dataclass(frozen=True)
class Pass:
    """What the workers do in one epoch, or in what is left of it.

    Attributes:
        epoch: its number, from 0, an int or an int64 scalar.
        segment: how often the number of workers has changed before.
        workers: their number.
        left: the rows of the epoch that are not taken yet, int64 [n], ascending; None: all.
    """

    epoch: int | tf.Tensor
    segment: int
    workers: int
    left: np.ndarray | None = None


@dataclass(frozen=True)
class Dealing:
    """How the rows of a data set are dealt out.

    Attributes:
        rows: number of rows in an epoch.
        batch_size: rows per step, of all workers together; the last steps of an epoch have fewer.
        workers: how many there are.
        shuffle: size of the windows within which rows are shuffled, of all workers together; 0 keeps the files' order.
        seed: determines the shuffled order.
        epochs: number of passes over the rows, -1 for no end.
        history: (workers, steps) of the training so far, in order.
    Raises:
        CtrlabError: a number out of its range; fewer rows in a batch than workers.
    """

    rows: int
    batch_size: int
    workers: int
    shuffle: int = 0
    seed: int = 0
    epochs: int = 1
    history: tuple[tuple[int, int], ...] = ()

    def __post_init__(self):
        if not 1 <= self.workers <= self.batch_size:
            raise CtrlabError(
                f"Each worker needs a row of each batch; received {self.workers} workers for batches of {self.batch_size}."
            )
        if self.rows < 1 or self.shuffle < 0 or not (self.epochs >= 1 or self.epochs == -1):
            raise CtrlabError(
                "Rows are dealt out from 1 on, shuffled by 0 or more, for 1 epoch or more, or -1 for no end; received "
                f"{self.rows}, {self.shuffle} and {self.epochs}."
            )

    def part(self, worker: int) -> int:
        """The number of rows of a full batch that a worker has."""
        return int(np.diff(borders(self.batch_size, self.batch_size, self.workers))[worker])

    @functools.cached_property
    def start(self) -> tuple[Pass, int]:
        """The pass with which the training continues, and the number of its steps that are done."""
        at, done = Pass(0, 0, self.history[0][0] if self.history else self.workers), 0
        for workers, steps in (*self.history, (self.workers, 0)):
            if workers != at.workers:
                left = self._left(at, done) if done else at.left
                at, done = Pass(at.epoch, at.segment + 1, workers, left), 0
            done += steps
            while (at.epoch < self.epochs or self.epochs == -1) and done >= (whole := self.steps_of(at)):
                epochs = 1 if at.left is not None else done // whole
                at, done = Pass(at.epoch + epochs, at.segment, workers), done - epochs * whole
        return at, done

    @property
    def steps(self) -> int | None:
        """Number of steps that are left; None: no end."""
        if self.epochs == -1:
            return None
        first, done = self.start
        if first.epoch >= self.epochs:
            return 0
        return self.steps_of(first) - done + (self.epochs - first.epoch - 1) * self.steps_of(Pass(0, 0, self.workers))

    def steps_of(self, at: Pass) -> int:
        """The number of steps of a pass: as many as the worker with the most rows needs."""
        parts = np.diff(borders(self.batch_size, self.batch_size, at.workers))
        return int((-(-np.diff(self._borders(at)) // parts)).max())

    def rows_of(self, at: Pass, worker: int) -> np.ndarray | range:
        """The rows that a worker has in a pass, ascending."""
        first, last = self._borders(at)[worker : worker + 2].tolist()
        return range(first, last) if at.left is None else at.left[first:last]

    def order(self, at: Pass, worker: int) -> tf.data.Dataset:
        """The rows that a worker has in a pass, in the order of training, by windows: int64 [<= the size of the window]."""
        size = self._window(at, worker)
        windows = tf.data.Dataset.range(-(-len(self.rows_of(at, worker)) // size))
        return windows.map(functools.partial(self._rows_in, at, worker, size))

    def others(self, at: Pass, worker: int) -> tf.data.Dataset:
        """The rows of an epoch that the worker does not have in this pass, in pieces: int64 [<= `IN_ORDER`], ascending."""
        own = self.rows_of(at, worker)
        if isinstance(own, range):
            whole = tf.data.Dataset.range(own.start).concatenate(tf.data.Dataset.range(own.stop, self.rows))
        else:
            whole = tf.data.Dataset.from_tensor_slices(np.setdiff1d(np.arange(self.rows), own, assume_unique=True))
        return whole.batch(IN_ORDER)

    def _borders(self, at: Pass) -> np.ndarray:
        return borders(self.rows if at.left is None else len(at.left), self.batch_size, at.workers)

    def _window(self, at: Pass, worker: int) -> int:
        size = int(np.diff(borders(self.shuffle or IN_ORDER, self.batch_size, at.workers))[worker])
        return max(1, size)

    @tf.autograph.experimental.do_not_convert
    def _rows_in(self, at: Pass, worker: int, size: int, number: tf.Tensor) -> tf.Tensor:
        rows = self.rows_of(at, worker)
        begin, end = number * size, tf.minimum((number + 1) * size, len(rows))
        found = rows.start + tf.range(begin, end) if isinstance(rows, range) else tf.constant(rows)[begin:end]
        if not self.shuffle:
            return found
        stream = np.random.SeedSequence((self.seed, at.segment, worker)).generate_state(1, np.uint64).view(np.int64)[0]
        place = tf.cast(at.epoch, tf.int64) * MOST_WINDOWS + number
        return tf.random.experimental.stateless_shuffle(found, seed=tf.stack([tf.constant(stream), place]))

    def _left(self, at: Pass, done: int) -> np.ndarray:
        """The rows of a pass that are left after `done` steps."""
        taken = []
        for worker in range(at.workers):
            count = done * int(np.diff(borders(self.batch_size, self.batch_size, at.workers))[worker])
            size = self._window(at, worker)
            for number in range(-(-min(count, len(self.rows_of(at, worker))) // size)):
                window = self._rows_in(at, worker, size, tf.constant(number, tf.int64)).numpy()
                taken.append(window[: count - number * size])
        rows = np.arange(self.rows) if at.left is None else at.left
        return np.setdiff1d(rows, np.concatenate(taken), assume_unique=True)


MOST_WINDOWS = 1 << 32
"""More windows than an epoch has, so that no two windows share a seed."""
IN_ORDER = 1 << 20
"""Rows per window if rows are not shuffled."""


def borders(rows: int, batch_size: int, workers: int) -> np.ndarray:
    """int64 [workers + 1]: where each worker's part of `rows` begins, in proportion to its part of a batch."""
    of_batch = batch_size * np.arange(workers + 1) // workers
    return rows * of_batch // batch_size
