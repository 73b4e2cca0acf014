"""Checkpoints for training with Keras's `fit`."""

from __future__ import annotations

import keras


class CheckpointCallback(keras.callbacks.Callback):
    """Saves during `fit` as `Checkpoints` does in our own loop. The `Checkpoints` object still has to be closed."""

    def __init__(self, checkpoints):
        super().__init__()
        self.checkpoints = checkpoints

    def on_epoch_begin(self, epoch, logs=None):
        self._done = 0

    def on_train_batch_end(self, batch, logs=None):
        self.checkpoints.advance(batch + 1 - self._done)  # with steps_per_execution, Keras does not report every batch
        self._done = batch + 1

    def on_train_end(self, logs=None):
        self.checkpoints.wait()
