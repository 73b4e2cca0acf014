"""DLRM: dot products of all pairs of embeddings, and of the numeric features after their own tower.

    Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019.

    numbers [B, n] --> 512-256-64-16 ReLU, BN --> bottom [B, D] --+-----------------------------+
                                                                  |                             |
    ids ------------> embeddings [B, F, D] -----------------------+--> dots of all pairs -------+--> 512-256 ReLU --> logit
                                                                       [B, (F + 1) F / 2]               [B, K]

The sizes are the contest's. In the contest's code the top's 512 layer had no effect; here the top is a real stack, as in the
paper. Without numbers a trained vector [D] stands in for the bottom, and only the products go to the top. Products of embeddings
alone, all near 0, have gradients near 0 and of random sign: most trainings would learn nothing. At size "few_rows" a linear part
like WDL's is added to the logit.
"""

from __future__ import annotations

from typing import ClassVar

import keras
import tensorflow as tf

from ctrlab.models import blocks, sharing, tables
from ctrlab.models.base import CTRModel
from ctrlab.models.sizes import Hyper, Sizes
from ctrlab.ops import dot_interaction, sparse_update
from ctrlab.profiling.work import Work


@keras.saving.register_keras_serializable("ctrlab")
class DLRM(CTRModel):
    presets: ClassVar = {
        "contest": Sizes(
            dim=16, units={"top": (512, 256), "bottom": (512, 256, 64)}, hyper=Hyper("adam_async", 0.01), batch_norm=True
        ),
        "small": Sizes(
            dim=16,
            units={"top": (64, 32), "bottom": (64, 32)},
            hyper=Hyper("adagrad", 0.05, batch_size=128, initial_accumulator=1e-3),
            l2=1e-5,
            momentum=0.9,
            scaled=True,
        ),
        "few_rows": Sizes.few_rows(top=(16,), bottom=(16,)),
    }

    def __init__(self, schema, optimizations="none", seed=2021, embedding="hashed", sizes=None, name=None):
        super().__init__(schema, optimizations, seed, embedding, sizes, name)
        seeds = blocks.Seeds(seed)
        self.encoder = blocks.Encoder(self.input_schema, rungs=self.rungs)
        self.fields = self.field_names()
        dim, units, options = self.sizes.dim, self.sizes.units, {"rungs": self.rungs} | self.sizes.tower
        numbers = self.encoder.number_count
        self.embedding = tables.Embeddings(schema, dim, seeds, self.choices, rungs=self.rungs, **self.sizes.embeddings)
        if numbers:
            self.bottom = blocks.Tower(numbers, (*units["bottom"], dim), seeds, name="bottom", **options)
        else:
            self.bottom, unit = None, 1 / (dim**0.5 * (self.sizes.deviation or 0.05))  # products of deviation 1
            self.start = self.add_weight(shape=(dim,), initializer=keras.initializers.Constant(unit), name="start")
        vectors = len(self.fields) + 1
        joined = vectors * (vectors - 1) // 2 + (dim if numbers else 0)
        self.interaction = dot_interaction.OP.pick(self.rungs)
        options["batch_norm"] = False
        self.linear = tables.Wide.of(self, numbers, len(self.tasks)) if self.sizes.linear else None
        self.top = blocks.Tower(joined, (*units["top"], len(self.tasks)), seeds, name="top", linear_top=True, **options)

    def call(self, features, training=False):
        ids, numbers = self.inputs(features, training)
        (flat,) = self.embedding.lookup(ids, pooled=[self.fields], training=training)  # [B, F * D]
        flat = sharing.whole(flat)
        if numbers is None:
            start = tf.tile(self.start[None], [tf.shape(flat)[0], 1])
            dots = self.interaction(start, flat, self.sizes.dim)[:, self.sizes.dim :]  # [B, P]
        else:
            dots = self.interaction(self.bottom(numbers, training=training), flat, self.sizes.dim)  # [B, D + P]
        logits = self.top(dots, training=training)  # [B, K]
        return logits if self.linear is None else logits + self.linear(ids, numbers, training=training)

    def work(self, rows: int, positions: float, distinct: float | None = None) -> Work:
        """The least work of one training step; see `CTRModel.work`."""
        towers = [tower for tower in (self.bottom, self.top) if tower]
        work = blocks.lookup_work(len(self.schema.categoricals) * rows + positions, self.sizes.dim, slots=2, distinct=distinct)
        for tower in towers:
            work += tower.work(rows)
        vectors = len(self.fields) + 1
        work += dot_interaction.OP.work(rows, vectors, self.sizes.dim)
        if self.linear is not None:
            work += blocks.linear_work(len(self.schema.categoricals) * rows, positions, distinct)
            towers.append(self.linear)
        return work + sparse_update.OP.work(blocks.weight_count(*towers), slots=2)
