"""DeepFM: a factorization machine and a deep tower on the same embeddings.

    Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction", IJCAI 2017.

    ids ------> embeddings [B, F, D] --+--> 1/2 ((sum v)^2 - sum v^2) [B, D] --+
     |                                 |                                       |
     |          numbers [B, n] --------+--> 512-128-32 ReLU, BN ---------------+--> 128-64 ReLU, BN --> logit [B, K]
     |                |                                                        |
     +--> multi-hot x w, + numbers x w [B, 1] ---------------------------------+

The sizes are the contest's. The contest's linear term had no weights (a plain sum); ours has weights, as in the paper.
At size "few_rows" it is added to the logit, as in the paper, and the last tower does not read it.
"""

from __future__ import annotations

from typing import ClassVar

import keras
import tensorflow as tf

from ctrlab.models import blocks, sharing, tables
from ctrlab.models.base import CTRModel
from ctrlab.models.sizes import Hyper, Sizes
from ctrlab.ops import factorization_machine, sparse_update
from ctrlab.profiling.work import Work


@keras.saving.register_keras_serializable("ctrlab")
class DeepFM(CTRModel):
    presets: ClassVar = {
        "contest": Sizes(
            dim=16, units={"deep": (512, 128, 32), "top": (128, 64)}, hyper=Hyper("adam_async", 1e-3), batch_norm=True
        ),
        "small": Sizes(
            dim=8,
            units={"deep": (64, 32), "top": (32,)},
            hyper=Hyper("adagrad", 0.03, batch_size=64, initial_accumulator=1e-2),
            dropout=0.1,
            l2=6e-5,
            momentum=0.9,
            deviation=0.03,
            scaled=True,
        ),
        "few_rows": Sizes.few_rows(deep=(16,), top=(16,)),
    }
    most_buckets = 10_000

    def __init__(self, schema, optimizations="none", seed=2021, embedding="hashed", sizes=None, name=None):
        super().__init__(schema, optimizations, seed, embedding, sizes, name)
        seeds = blocks.Seeds(seed)
        self.encoder = blocks.Encoder(self.input_schema, rungs=self.rungs)
        self.fields = self.field_names()
        dim, units, options = self.sizes.dim, self.sizes.units, {"rungs": self.rungs} | self.sizes.tower
        numbers, tasks = self.encoder.number_count, len(self.tasks)
        self.embedding = tables.Embeddings(schema, dim, seeds, self.choices, rungs=self.rungs, **self.sizes.embeddings)
        self.linear = tables.Wide.of(self, numbers, tasks if self.sizes.linear else 1)
        self.deep = blocks.Tower(len(self.fields) * dim + numbers, units["deep"], seeds, name="deep", **options)
        joined = units["deep"][-1] + (0 if self.sizes.linear else 1) + dim
        self.interaction = factorization_machine.OP.pick(self.rungs)
        self.top = blocks.Tower(joined, units["top"], seeds, name="top", **options)
        self.logit = blocks.Tower(units["top"][-1], (tasks,), seeds, name="logit", linear_top=True, **options)

    def call(self, features, training=False):
        ids, numbers = self.inputs(features, training)
        (flat,) = self.embedding.lookup(ids, pooled=[self.fields], training=training)  # [B, F * D]
        deep = self.deep(sharing.side_by_side(flat, numbers), training=training)  # [B, 32]
        pairs = self._pairs(flat)  # [B, D]
        linear = self.linear(ids, numbers, training=training)  # [B, 1], or [B, K]
        parts = (deep, pairs) if self.sizes.linear else (deep, linear, pairs)  # [B, 32 + 1 + D] together
        logits = self.logit(self.top(sharing.side_by_side(*parts), training=training), training=training)  # [B, K]
        return logits + linear if self.sizes.linear else logits

    def _pairs(self, flat: sharing.Matrix) -> sharing.Matrix:
        """The sum over all pairs of fields. For two groups it is the sum of each group's own pairs, plus the product of their
        sums.
        """
        if not isinstance(flat, sharing.Parts):
            return sharing.elementwise(lambda fields: self.interaction(fields, self.sizes.dim), flat)
        groups = [sharing.whole(sharing.elementwise(self._sums, group)) for group in sharing.groups(flat)]  # 2 of [B, 2 D]
        (one, own), (other, others) = (tf.split(group, 2, axis=1) for group in groups)
        return one * other + own + others

    def _sums(self, fields: tf.Tensor) -> tf.Tensor:
        """The sum of a group of fields, [B, n * D], and the sum over its pairs, side by side: [B, 2 D]."""
        total = tf.reduce_sum(tf.reshape(fields, (-1, fields.shape[1] // self.sizes.dim, self.sizes.dim)), 1)
        return tf.concat([total, self.interaction(fields, self.sizes.dim)], axis=1)

    def work(self, rows: int, positions: float, distinct: float | None = None) -> Work:
        """The least work of one training step; see `CTRModel.work`."""
        towers = self.deep.work(rows) + self.top.work(rows) + self.logit.work(rows)
        singles = len(self.schema.categoricals) * rows
        tables = blocks.lookup_work(singles + positions, self.sizes.dim, slots=2, distinct=distinct)
        dense = blocks.weight_count(self.linear, self.deep, self.top, self.logit)
        linear = blocks.linear_work(singles, positions, distinct)
        pairs = factorization_machine.OP.work(rows, len(self.fields), self.sizes.dim)
        return towers + tables + linear + pairs + sparse_update.OP.work(dense, slots=2)
