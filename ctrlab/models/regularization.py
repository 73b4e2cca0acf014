"""Dropout and the L2 penalty, which keep a model from memorizing its training rows. Both act in training only.

    loss = cross-entropy + l2 * ( sum over the towers' kernels of |W|^2
                                + sum over the embeddings that the batch reads of |e|^2
                                + sum over the linear weights that the batch reads of w^2 )

An embedding is the result of a lookup: an id's row, or the mean of a bag. So the penalty's gradient only touches rows that the
batch reads, in every kind of table. The cross-entropy is a mean over the batch, the penalty a sum, so one factor suits rows and
kernels; with twice the batch size a row is penalized twice as much. Towers are the stacks of dense layers from the embeddings to
the logits, with the linear part's weights of numbers; biases, normalizations, attention units, auxiliary nets, gates and GRUs
have no penalty. Each layer adds its own terms with `add_loss`, so Keras's `fit` includes them, as our own step does.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import keras
import tensorflow as tf

from ctrlab import whole_batch


class Dropout(keras.layers.Layer):
    """In training, each number is 0 with probability `rate`, and the others are divided by 1 - rate.

    Its masks depend only on the seed and on the number of earlier draws, which is stored as a weight. So a resumed run continues
    with the same masks, and every set of optimizations draws the same ones.

    Args:
        examples: the axis of the examples.
    """

    def __init__(self, rate: float, seed: int, name: str, examples: int = 0):
        super().__init__(name=name)
        self.rate, self.seed, self.examples = rate, seed, examples

    def build(self, input_shape=None):
        self.drawn = self.add_weight(shape=(), dtype="int64", initializer="zeros", trainable=False, name="drawn")
        self.built = True

    def call(self, x):
        seed = tf.stack([tf.constant(self.seed, tf.int64), self.drawn.value])
        self.drawn.assign_add(1)
        keep = functools.partial(tf.nn.experimental.stateless_dropout, rate=self.rate, seed=seed)
        return x * whole_batch.part_of(lambda shape: keep(tf.ones(shape)), x, self.examples)


def penalty(l2: float, tensors: Iterable[tf.Tensor]) -> tf.Tensor:
    """l2 * the sum of the squares of all numbers in `tensors`, float32."""
    return l2 * tf.add_n([tf.reduce_sum(tf.square(t)) for t in tensors])
