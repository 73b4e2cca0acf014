"""The initial rows of a sharded table: those that the whole table would have, drawn without memory for the whole table."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from ctrlab.whole_batch import Shard

BLOCK = 1 << 16
"""Rows that are drawn at a time. A block begins at a multiple of 4 numbers, because one value of the generator's counter gives 4
numbers.
"""


class RowsOf(keras.initializers.Initializer):
    """Draws the rows of one shard, bit for bit as `keras.initializers.RandomNormal(stddev=deviation, seed=seed)` draws them for
    [rows, D].

    The generator is counter-based, so a draw can begin anywhere: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
    SC 2011 (Philox).
    """

    def __init__(self, rows: int, shard: Shard, deviation: float, seed: int):
        self.rows, self.shard, self.deviation, self.seed = rows, shard, deviation, seed

    def __call__(self, shape, dtype="float32"):
        found = np.empty(shape, np.float32)
        seed = tf.constant([self.seed % (tf.int32.max - 1), 0], tf.int32)  # as Keras gives it to TensorFlow
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
        algorithm = tf.raw_ops.StatelessRandomGetAlg()
        done = 0
        for first in range(0, self.rows, BLOCK):
            ahead = tf.constant([first * shape[1] // 4, 0], tf.uint64)
            drawn = tf.raw_ops.StatelessRandomNormalV2(
                shape=[min(BLOCK, self.rows - first), shape[1]], key=key, counter=counter + ahead, alg=algorithm
            )
            own = drawn.numpy()[(self.shard.index - first) % self.shard.count :: self.shard.count]
            found[done : done + len(own)] = own
            done += len(own)
        return tf.constant(found * np.float32(self.deviation), dtype)
