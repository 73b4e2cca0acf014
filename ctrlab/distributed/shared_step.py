"""One traced step of several workers: a `SharedBatch` on TensorFlow's collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.distributed import collectives, exchange
from ctrlab.whole_batch import Shard, SharedBatch

SMALL = 1 << 10
"""A sum of up to this many numbers is one round trip to all others. A ring sends less, but each of its 2 (W - 1) hops costs a
delay.
"""
BUCKET = 1 << 18
"""Numbers per bucket that is summed, so that the first buckets can be sent while the backward pass computes the next ones."""


class SharedStep(SharedBatch):
    """The exchanges of one trace. All workers trace the same ones in the same order, which gives each its key.

    Args:
        program: a number that distinguishes this step from others of the process; the same on all workers.
        rows: number of examples of this worker, int scalar; None in a forward pass outside of training.
        rows_as: the type in which rows of tables and their gradients are sent: float32, or bfloat16 with half the bytes.
    """

    def __init__(self, shard: Shard, program: int, rows: tf.Tensor | None = None, rows_as: tf.DType = tf.float32):
        self.shard, self.rows_as = shard, rows_as
        self._next_key = program * collectives.KEYS_OF_PROGRAM
        self.rows = None if rows is None else self.gathered(tf.cast(rows, tf.int64))

    def _key(self) -> int:
        key, self._next_key = self._next_key, self._next_key + collectives.KEYS_OF_OP
        return key

    def total(self, x: tf.Tensor) -> tf.Tensor:
        if (x.shape.num_elements() or 0) <= SMALL:
            return tf.reduce_sum(self.gathered(x), 0)
        return collectives.summed(x, self.shard.count, self._key())

    def gathered(self, x: tf.Tensor) -> tf.Tensor:
        alike = tf.tile(x[None], [self.shard.count, *[1] * x.shape.rank])
        return collectives.exchanged(alike, self._key())

    def exchanged(self, x: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """See `collectives.exchanged`, for a size of this `number`."""
        return collectives.exchanged(x, self._key() + number)

    def lookup(self, read: Callable, tables: Sequence, columns: Sequence, layout, counted: bool) -> list[tf.Tensor]:
        return exchange.rows_of(self, read, tables, columns, layout, counted)

    def reduced(self, gradients: list, variables: Sequence) -> list:
        whole = [i for i, (g, v) in enumerate(zip(gradients, variables)) if g is not None and not whole_batch.is_sharded(v)]
        found = list(gradients)
        for bucket in _buckets(whole, variables):
            parts = [tf.reshape(tf.convert_to_tensor(gradients[i]), [-1]) for i in bucket]
            summed = tf.split(self.total(tf.concat(parts, 0)), [variables[i].shape.num_elements() for i in bucket])
            for i, part in zip(bucket, summed):
                found[i] = tf.reshape(part, variables[i].shape)
        return found


def _buckets(indices: Sequence[int], variables: Sequence) -> list[list[int]]:
    """Groups the indices of tensors into runs of at least `BUCKET` numbers, from the last: a backward pass computes the last
    layers' gradients first.
    """
    buckets, room = [], 0
    for i in reversed(indices):
        if room <= 0:
            buckets.append([])
            room = BUCKET
        buckets[-1].append(i)
        room -= variables[i].shape.num_elements()
    return buckets
