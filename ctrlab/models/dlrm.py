"""DLRM: dot products of all pairs of embeddings, and of the numeric features after their own tower.

    Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019.

    numbers [B, n] --> 512-256-64-16 ReLU, BN --> bottom [B, D] --+-----------------------------+
                                                                  |                             |
    ids ------------> embeddings [B, F, D] -----------------------+--> dots of all pairs -------+--> 512-256 ReLU --> logit
                                                                       [B, (F + 1) F / 2]               [B, K]

The sizes are the contest's. In the contest's code the top's 512 layer had no effect; here the top is a real stack, as in the
paper. A schema without numbers has no bottom: only the pairs of embeddings go to the top.
"""

from __future__ import annotations

import keras

from ctrlab.models import blocks, tables
from ctrlab.models.base import CTRModel, Hyper
from ctrlab.ops import dot_interaction, sparse_update
from ctrlab.profiling.work import Work


@keras.saving.register_keras_serializable("ctrlab")
class DLRM(CTRModel):
    hyper = Hyper(optimizer="adam_async", learning_rate=0.01)

    dim = 16
    bottom_units = (512, 256, 64, 16)
    top_units = (512, 256)

    def __init__(self, schema, optimizations="none", seed=2021, embedding="hashed", name=None):
        super().__init__(schema, optimizations, seed, embedding, name)
        seeds = blocks.Seeds(seed)
        self.encoder = blocks.Encoder(self.input_schema, rungs=self.rungs)
        self.fields = [c.name for c in self.encoder.id_columns]
        numbers = self.encoder.number_count
        self.embedding = tables.Embeddings(schema, self.dim, seeds, self.choices, rungs=self.rungs)
        self.bottom = (
            blocks.Tower(numbers, self.bottom_units, seeds, name="bottom", batch_norm=True, rungs=self.rungs) if numbers else None
        )
        vectors = len(self.fields) + (1 if numbers else 0)
        joined = vectors * (vectors - 1) // 2 + (self.dim if numbers else 0)
        self.interaction = dot_interaction.OP.pick(self.rungs)
        units = (*self.top_units, len(self.tasks))
        self.top = blocks.Tower(joined, units, seeds, name="top", linear_top=True, rungs=self.rungs)

    def call(self, features, training=False):
        ids, numbers = self.encoder.ids(features), self.encoder.numbers(features)
        (flat,) = self.embedding.lookup(ids, pooled=[self.fields], training=training)  # [B, F * D]
        dense = None if numbers is None else self.bottom(numbers, training=training)  # [B, D]
        return self.top(self.interaction(dense, flat, self.dim))  # [B, K]

    def work(self, rows: int, positions: float, distinct: float | None = None) -> Work:
        """The least work of one training step; see `CTRModel.work`."""
        towers = [tower for tower in (self.bottom, self.top) if tower]
        work = blocks.lookup_work(len(self.schema.categoricals) * rows + positions, self.dim, slots=2, distinct=distinct)
        for tower in towers:
            work += tower.work(rows)
        vectors = len(self.fields) + (self.bottom is not None)
        work += dot_interaction.OP.work(rows, vectors, self.dim)
        return work + sparse_update.OP.work(blocks.weight_count(*towers), slots=2)
