"""Wide & Deep: a linear model over the ids next to a deep tower over their embeddings.

    Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016.

    ids ------> embeddings [B, F * D] --+--> L2 norm --> 1024-512-256-64 ReLU --> [B, K] --+
     |                                  |                                                  |
     |          numbers [B, n] ---------+                                                  +--> logit [B, K]
     |                |                                                                    |
     +--> multi-hot x w, + numbers x w -------------------------------------------> [B, K] +

The sizes are the contest's. As there, one L2 norm over the whole batch normalizes the deep input [B, F * D + n].
"""

from __future__ import annotations

import keras
import tensorflow as tf

from ctrlab.models import blocks, tables
from ctrlab.models.base import CTRModel, Hyper
from ctrlab.ops import sparse_update
from ctrlab.profiling.work import Work

# The wide part hashes each of its columns to this many words. At the tables' own 100,000, the multi-hot of 15 columns would
# take 3 GB per step of 512 examples: not a fair baseline.
WIDE_BUCKETS = 1_000


@keras.saving.register_keras_serializable("ctrlab")
class WDL(CTRModel):
    hyper = Hyper(optimizer="adam_async", learning_rate=0.01)
    rows_apart = False  # the norm is over the whole batch

    dim = 16
    deep_units = (1024, 512, 256, 64)

    def __init__(self, schema, optimizations="none", seed=2021, embedding="hashed", name=None):
        super().__init__(schema, optimizations, seed, embedding, name)
        seeds = blocks.Seeds(seed)
        self.encoder = blocks.Encoder(self.input_schema, rungs=self.rungs)
        self.fields = [c.name for c in self.encoder.id_columns]
        numbers, tasks = self.encoder.number_count, len(self.tasks)
        self.embedding = tables.Embeddings(schema, self.dim, seeds, self.choices, rungs=self.rungs)
        wide = {name: min(schema[name].buckets, WIDE_BUCKETS) for name in schema.wide}
        self.wide = tables.Wide(wide, self.input_schema, numbers, tasks, self.choices, rungs=self.rungs, name="wide")
        inputs = len(self.fields) * self.dim + numbers
        units = (*self.deep_units, tasks)
        self.deep = blocks.Tower(inputs, units, seeds, name="deep", linear_top=True, rungs=self.rungs)

    def call(self, features, training=False):
        ids, numbers = self.encoder.ids(features), self.encoder.numbers(features)
        (deep,) = self.embedding.lookup(ids, pooled=[self.fields], training=training)  # [B, F * D]
        if numbers is not None:
            deep = tf.concat([deep, numbers], axis=1)  # [B, F * D + n]
        return self.deep(tf.nn.l2_normalize(deep)) + self.wide(ids, numbers, training=training)  # [B, K]

    def work(self, rows: int, positions: float, distinct: float | None = None) -> Work:
        """The least work of one training step; see `CTRModel.work`."""
        singles = len(self.schema.categoricals) * rows
        tables = blocks.lookup_work(singles + positions, self.dim, slots=2, distinct=distinct)
        weights = min(singles, distinct or singles)
        linear = Work(flops=4.0 * (singles + positions), random_rows=2 * weights, row_bytes=4)
        dense = sparse_update.OP.work(blocks.weight_count(self.wide, self.deep), slots=2)
        return self.deep.work(rows) + tables + linear + dense
