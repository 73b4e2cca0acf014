"""A plain Keras model, as one writes it without this package: a factorization machine and a small tower, trained by Adam."""

from __future__ import annotations

import keras
import tensorflow as tf

from ctrlab.models.blocks import Encoder
from ctrlab.schema import Schema

DIM, UNITS, MOST_BUCKETS = 8, (64, 32), 100_000
RATE = 1e-3


class PlainFM(keras.Model):
    """Linear terms + 1/2 ((sum v)^2 - sum v^2) + a tower on the embeddings and numbers -> logits [B, K].

    Attributes:
        tasks, schema: like those of our models, so that `ctrlab.training.evaluate` takes this model.
    """

    def __init__(self, schema: Schema, seed: int):
        super().__init__(name="plain_keras")
        keras.utils.set_random_seed(seed)
        self.schema = schema.with_buckets(MOST_BUCKETS)
        self.tasks = tuple(label.name for label in schema.labels)
        self.encoder = Encoder(self.schema)
        tables = {c.table: c.buckets for c in self.encoder.id_columns}
        self.vectors = {table: keras.layers.Embedding(rows, DIM) for table, rows in tables.items()}
        self.singles = {table: keras.layers.Embedding(rows, 1, "zeros") for table, rows in tables.items()}
        self.scale = keras.layers.BatchNormalization()  # of the numbers
        self.tower = keras.Sequential([keras.layers.Dense(n, "relu") for n in UNITS])
        self.logit = keras.layers.Dense(len(self.tasks))
        self.linear = keras.layers.Dense(len(self.tasks))

    def call(self, features, training=False):
        ids, numbers = self.encoder.ids(features), self.encoder.numbers(features)
        columns = self.encoder.id_columns
        fields = tf.stack([_pooled(self.vectors[c.table], ids[c.name]) for c in columns], axis=1)  # [B, F, D]
        parts = [tf.concat([_pooled(self.singles[c.table], ids[c.name]) for c in columns], axis=1)]  # [B, F]
        pairs = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(fields, 1)) - tf.reduce_sum(tf.square(fields), 1), 1)  # [B]
        deep = [tf.reshape(fields, [-1, len(columns) * DIM])]  # [B, F * D]
        if numbers is not None:
            scaled = self.scale(numbers, training=training)
            parts, deep = [*parts, scaled], [*deep, scaled]
        return self.linear(tf.concat(parts, 1)) + pairs[:, None] + self.logit(self.tower(tf.concat(deep, 1)))  # [B, K]

    def users(self, features) -> None:
        return None


def _pooled(layer: keras.layers.Embedding, ids) -> tf.Tensor:
    """The embedding of a column, [B, D]; for a list the mean, zeros if it is empty."""
    if not isinstance(ids, tf.RaggedTensor):
        return layer(ids)
    return tf.math.unsorted_segment_mean(layer(ids.flat_values), ids.value_rowids(), ids.nrows())
