"""The type of ragged arguments: ops over histories take it, so that padding happens only inside ops that need it."""

from __future__ import annotations

import functools

import tensorflow as tf


class Events:
    """A vector or a number for each event of each history, flat or padded. The missing form is computed on demand.

    Attributes:
        flat: float32 [N, C], the events of all examples one after another.
        padded: float32 [B, T, C], zeros past a history's end.
        splits: int64 [B + 1], the events of example b are flat[splits[b] : splits[b + 1]].
        lengths: int64 [B].
        total: float32 [B, C], the sum of each example's events; computed from the existing form if not given.
    """

    def __init__(self, splits: tf.Tensor, *, flat=None, padded=None, total=None):
        self.splits = splits
        self._flat, self._padded, self._total = flat, padded, total

    @functools.cached_property
    def lengths(self) -> tf.Tensor:
        return self.splits[1:] - self.splits[:-1]

    @functools.cached_property
    def flat(self) -> tf.Tensor:
        if self._flat is not None:
            return self._flat
        return tf.boolean_mask(self._padded, tf.sequence_mask(self.lengths, tf.shape(self._padded)[1]))

    @functools.cached_property
    def padded(self) -> tf.Tensor:
        return self.ragged.to_tensor() if self._padded is None else self._padded

    @functools.cached_property
    def total(self) -> tf.Tensor:
        if self._total is not None:
            return self._total
        if self._padded is not None or "padded" in vars(self):
            return tf.reduce_sum(self.padded, 1)
        return tf.math.unsorted_segment_sum(self.flat, self.ragged.value_rowids(), self.ragged.nrows())

    @property
    def ragged(self) -> tf.RaggedTensor:
        """[B, (L), C]."""
        return tf.RaggedTensor.from_row_splits(self.flat, self.splits, validate=False)

    def repeated(self, times: tf.Tensor) -> Events:
        """The history of example b `times[b]` times, one after the other; `times` is int64 [B]."""
        copies = tf.gather(self.ragged, tf.repeat(tf.range(tf.size(times)), times))  # [sum of times, (L), C]
        return Events(copies.row_splits, flat=copies.values)
