"""Checkpoints and eviction for training with Keras's `fit`."""

from __future__ import annotations

import keras

from ctrlab.training.eviction import Evictions


class _Counting(keras.callbacks.Callback):
    """Calls `advance` with the number of steps that were taken since the last call."""

    def advance(self, steps: int) -> None:
        raise NotImplementedError

    def on_epoch_begin(self, epoch, logs=None):
        self._done = 0

    def on_train_batch_end(self, batch, logs=None):
        self.advance(batch + 1 - self._done)  # with steps_per_execution, Keras does not report every batch
        self._done = batch + 1


class CheckpointCallback(_Counting):
    """Saves during `fit` as `Checkpoints` does in our own loop. The `Checkpoints` object still has to be closed."""

    def __init__(self, checkpoints):
        super().__init__()
        self.checkpoints = checkpoints

    def advance(self, steps):
        self.checkpoints.advance(steps)

    def on_train_end(self, logs=None):
        self.checkpoints.wait()


class EvictionCallback(_Counting):
    """Lets embedding variables evict during `fit`, after each `every` steps, as `Evictions` does in our own loop.

    With `steps_per_execution` above 1 it acts at the end of the call in which it is due.

    Raises, when `fit` begins:
        CtrlabError: as in `Evictions`.

    >>> model.fit(batches, callbacks=[EvictionCallback(every=1_000)])     # doctest: +SKIP
    """

    def __init__(self, every: int):
        super().__init__()
        self.every = every
        self.evictions: Evictions | None = None

    def on_train_begin(self, logs=None):
        self.evictions = self.evictions or Evictions(self.model, self.every)

    def advance(self, steps):
        self.evictions.advance(steps)
