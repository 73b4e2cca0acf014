"""A ragged argument: what ops over histories take, so that padding happens inside those that need it."""

from __future__ import annotations

import functools

import tensorflow as tf


class Events:
    """A vector, or a number, for each event of each history, in two forms; what it was not made from is made when asked for.

    Attributes:
        flat: float32 [N, C], all rows' events one after another.
        padded: float32 [B, T, C], zeros past a row's end.
        splits: int64 [B + 1], row b's events are flat[splits[b] : splits[b + 1]].
        lengths: int64 [B].
        total: float32 [B, C], the sum of each row's events; made from the form that is there, where it was not given.
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
