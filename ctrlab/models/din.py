"""DIN: which events of a user's history matter depends on the item that is shown now.

    Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018.

    target [B, C] --> query [B, C] --+
                                     +--> activation unit --> weights [B, T] --> sum of weights x history [B, C] --+
    history [B, T, C] ---------------+                                                                             |
          |                                                                                                        |
          +--> sum over T [B, C] --+--> target x sum [B, C] -------------------------------------------------------+--> head
                                   +-------------------------------------------------------------------------------+    200-80
    target [B, C], other columns' embeddings and numbers ----------------------------------------------------------+    [B, K]

The sizes are the contest's (C = 36: an item and its category, 18 each). Padding contributes exactly nothing.
"""

from __future__ import annotations

from typing import ClassVar

import keras

from ctrlab.models import blocks, interest, sharing, tables
from ctrlab.models.base import CTRModel
from ctrlab.models.sizes import Hyper, Sizes
from ctrlab.ops import attention, sparse_update
from ctrlab.profiling.work import Work, dense_work


@keras.saving.register_keras_serializable("ctrlab")
class DIN(CTRModel):
    presets: ClassVar = {
        "contest": Sizes(
            dim=18, units={"head": (200, 80), "attention": (80, 40)}, hyper=Hyper("adam_async", 1e-3, clip_norm=5.0)
        ),
        "small": Sizes(
            dim=16,
            units={"head": (64, 32), "attention": (32, 16)},
            hyper=Hyper("adam_async", 4e-3, clip_norm=5.0, batch_size=256),
            l2=1e-5,
            momentum=0.9,
            deviation=0.03,
        ),
    }

    def __init__(self, schema, optimizations="none", seed=2021, embedding="hashed", sizes=None, name=None):
        super().__init__(schema, optimizations, seed, embedding, sizes, name)
        seeds = blocks.Seeds(seed)
        self.encoder = blocks.Encoder(self.input_schema, rungs=self.rungs)
        self.behaviour = interest.Behaviour(self.input_schema, "din")
        dim, units = self.sizes.dim, self.sizes.units
        width = dim * len(self.behaviour.histories)  # C
        self.embedding = tables.Embeddings(schema, dim, seeds, self.choices, rungs=self.rungs, **self.sizes.embeddings)
        self.query = interest.Query(width, width, seeds, rungs=self.rungs)
        layers = (*units["attention"], 1)
        self.unit = blocks.Tower(4 * width, layers, seeds, name="attention", activation="sigmoid", linear_top=True)
        self.attend = interest.Attention(self.rungs)
        inputs = len(self.behaviour.profile) * dim + self.encoder.number_count + 4 * width
        self.head = interest.Head(inputs, len(self.tasks), seeds, self.sizes, rungs=self.rungs)

    def call(self, features, training=False):
        ids, numbers = self.inputs(features, training)
        profile, target, events, _ = self.behaviour.embed(self.embedding, ids, training)
        _, attended = self.attend(self.query(target), events, interest.layers_of(self.unit))  # [B, C]

        total = interest.total(events)  # [B, C]
        crossed = sharing.whole(target) * sharing.whole(total)  # [B, C]
        return self.head(sharing.side_by_side(*profile, target, total, crossed, attended, numbers), training=training)  # [B, K]

    def work(self, rows: int, positions: float, distinct: float | None = None) -> Work:
        """The least work of one training step; see `CTRModel.work`."""
        lists = len(self.behaviour.histories) + len(self.schema.multi_hots)
        events, width = positions / lists, self.sizes.dim * len(self.behaviour.histories)
        tables = blocks.lookup_work(len(self.schema.categoricals) * rows + positions, self.sizes.dim, slots=2, distinct=distinct)
        unit = attention.OP.work(rows, events, width, self.sizes.units["attention"])
        query = dense_work((width, width), rows)
        sums = Work(flops=2.0 * events * width)
        dense = sparse_update.OP.work(blocks.weight_count(self.query, self.unit, self.head), slots=2)
        return tables + unit + query + sums + self.head.work(rows) + dense
