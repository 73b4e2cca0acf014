"""Standardizes numbers with the mean and the deviation of all rows that the training has seen."""

from __future__ import annotations

import keras
import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.models import sharing

LEAST_VARIANCE = 1e-6
"""Added to each variance, so that a constant column gives 0."""


class Standardized(keras.layers.Layer):
    """Computes (x - mean) / sqrt(variance + 1e-6) for each column, float32 [B, n].

    Mean and variance are over all rows of the training steps so far, including this step. They are the same in training and in
    serving. Those of a batch normalization differ: in training they are the batch's own, and after a short training the moving
    ones still depend on their first values. Steps with old and new rows are joined as in

        Chan, Golub & LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.

    Before the first step mean and variance are 0 and 1.
    """

    def __init__(self, columns: int, name: str):
        super().__init__(name=name)
        self.columns = columns
        self.build()

    def build(self, input_shape=None):
        def weight(name: str, shape: tuple, dtype: str, initial: str):
            return self.add_weight(shape=shape, dtype=dtype, initializer=initial, trainable=False, name=name)

        self.rows = weight("rows", (), "int64", "zeros")
        self.mean = weight("mean", (self.columns,), "float32", "zeros")
        self.variance = weight("variance", (self.columns,), "float32", "ones")
        self.built = True

    def call(self, x, training=False):
        mean, variance = self._with(x) if training else (self.mean.value, self.variance.value)
        return sharing.elementwise(lambda x, mean, scale: (x - mean) * scale, x, mean, tf.math.rsqrt(variance + LEAST_VARIANCE))

    def _with(self, x) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance, updated with the rows of `x`; the layer stores them."""
        new = whole_batch.rows(x)
        rows = self.rows.value + new
        share = tf.cast(new / tf.maximum(rows, 1), x.dtype)  # of the new rows
        mean, variance = whole_batch.moments(x)
        step = mean - self.mean.value
        mean = self.mean.value + share * step
        variance = self.variance.value + share * (variance - self.variance.value + (1 - share) * tf.square(step))
        for weight, value in ((self.rows, rows), (self.mean, mean), (self.variance, variance)):
            weight.assign(value)
        return mean, variance
