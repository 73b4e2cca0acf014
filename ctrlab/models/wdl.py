"""Wide & Deep: a linear model over the ids next to a deep tower over their embeddings.

    Cheng et al., "Wide & Deep Learning for Recommender Systems", DLRS 2016.

    ids ------> embeddings [B, F * D] --+--> L2 norm --> 1024-512-256-64 ReLU --> [B, K] --+
     |                                  |                                                  |
     |          numbers [B, n] ---------+                                                  +--> logit [B, K]
     |                |                                                                    |
     +--> multi-hot x w, + numbers x w -------------------------------------------> [B, K] +

In the contest one L2 norm over the whole batch divides the deep input [B, F * D + n]; at size "small" none does, as in the paper.
"""

from __future__ import annotations

from typing import ClassVar

import keras
import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.models import blocks, sharing, tables
from ctrlab.models.base import CTRModel
from ctrlab.models.sizes import Hyper, Sizes
from ctrlab.ops import sparse_update
from ctrlab.profiling.work import Work


@keras.saving.register_keras_serializable("ctrlab")
class WDL(CTRModel):
    # At the tables' own 100,000 words a column, the contest's multi-hot of 15 columns would take 3 GB per step of 512 examples:
    # not a fair baseline.
    presets: ClassVar = {
        "contest": Sizes(
            dim=16,
            units={"deep": (1024, 512, 256, 64)},
            hyper=Hyper("adam_async", 0.01),
            wide_buckets=1_000,
            joint_norm=True,
        ),
        "small": Sizes(
            dim=8,
            units={"deep": (64, 32)},
            hyper=Hyper("adagrad", 0.03, batch_size=128, initial_accumulator=1e-3),
            dropout=0.1,
            l2=1e-4,
            momentum=0.9,
            deviation=0.02,
            scaled=True,
        ),
        "few_rows": Sizes.few_rows(deep=(16,)),
    }

    def __init__(self, schema, optimizations="none", seed=2021, embedding="hashed", sizes=None, name=None):
        super().__init__(schema, optimizations, seed, embedding, sizes, name)
        seeds = blocks.Seeds(seed)
        self.encoder = blocks.Encoder(self.input_schema, rungs=self.rungs)
        self.fields = self.field_names()
        dim, numbers, tasks = self.sizes.dim, self.encoder.number_count, len(self.tasks)
        options = {"rungs": self.rungs} | self.sizes.tower
        self.embedding = tables.Embeddings(schema, dim, seeds, self.choices, rungs=self.rungs, **self.sizes.embeddings)
        self.wide = tables.Wide.of(self, numbers, tasks, name="wide")
        units = (*self.sizes.units["deep"], tasks)
        self.deep = blocks.Tower(len(self.fields) * dim + numbers, units, seeds, name="deep", linear_top=True, **options)

    def call(self, features, training=False):
        ids, numbers = self.inputs(features, training)
        (deep,) = self.embedding.lookup(ids, pooled=[self.fields], training=training)  # [B, F * D]
        deep = sharing.side_by_side(deep, numbers)  # [B, F * D + n]
        if self.sizes.joint_norm:
            deep = _normalized(deep)
        return self.deep(deep, training=training) + self.wide(ids, numbers, training=training)  # [B, K]

    def work(self, rows: int, positions: float, distinct: float | None = None) -> Work:
        """The least work of one training step; see `CTRModel.work`."""
        singles = len(self.schema.categoricals) * rows
        tables = blocks.lookup_work(singles + positions, self.sizes.dim, slots=2, distinct=distinct)
        linear = blocks.linear_work(singles, positions, distinct)
        dense = sparse_update.OP.work(blocks.weight_count(self.wide, self.deep), slots=2)
        return self.deep.work(rows) + tables + linear + dense


def _normalized(x: sharing.Matrix) -> sharing.Matrix:
    """x, [B, n], divided by the L2 norm of all of its numbers."""
    if isinstance(x, tf.Tensor):
        squares = tf.square(x)
    else:
        grouped = (sharing.rowwise(lambda group: tf.reduce_sum(tf.square(group), 1), group) for group in sharing.groups(x))
        squares = sharing.added(grouped)  # [B]
    scale = tf.math.rsqrt(tf.maximum(whole_batch.total(tf.reduce_sum(squares)), 1e-12))
    return sharing.elementwise(lambda piece: piece * scale, x)
