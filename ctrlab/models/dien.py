"""DIEN: a GRU extracts interests from the history, and an AUGRU follows the evolution of those related to the target.

    Zhou et al., "Deep Interest Evolution Network for Click-Through Rate Prediction", AAAI 2019.

    history [B, T, C] --> GRU --> interests [B, T, H] --+-----------------> AUGRU --> last state [B, H] ---------------+
                                       |                |                     ^                                        |
                                       |                +--> activation unit --> weights [B, T]                        |
                                       v                          ^                                                    |
    next event, negative --> auxiliary net             target --> query [B, H]                                         |
    [B, T-1, C] each         100-50 sigmoid                                                                            |
                             -> added loss                                                                             |
    history --> sum over T [B, C] --+--> target x sum [B, C] ----------------------------------------------------------+-> head
                                    +----------------------------------------------------------------------------------+   200-80
    target [B, C], other columns' embeddings and numbers --------------------------------------------------------------+   [B, K]

From the interest after an event the auxiliary net must tell the user's next event from an event that did not happen. It needs a
schema with negatives, and it runs in training only. The sizes are the contest's (C = H = 36). Its two-way softmaxes are written
as one logit here: the same function. Padding contributes exactly nothing.
"""

from __future__ import annotations

from typing import ClassVar

import keras
import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.models import blocks, interest, sharing, tables
from ctrlab.models.base import CTRModel
from ctrlab.models.sizes import Hyper, Sizes
from ctrlab.ops import attention, auxiliary, gru, shared_augru, sparse_update
from ctrlab.ops.events import Events
from ctrlab.profiling.work import Work, dense_work


class AuxiliaryNet(keras.layers.Layer):
    """The auxiliary loss and its weights. They give the logit that an event, C wide, follows an interest, H wide."""

    def __init__(self, hidden: int, width: int, units, seeds: blocks.Seeds, rungs=(), name: str = "auxiliary"):
        super().__init__(name=name)
        self.mean, self.widths, self.units = auxiliary.OP.pick(rungs), (hidden, width), units
        self.affine = interest.Affine(hidden + width, f"{name}_affine")
        layers = (*units, 1)
        self.tower = blocks.Tower(hidden + width, layers, seeds, name=f"{name}_tower", activation="sigmoid", linear_top=True)
        self.built = True

    def loss(self, interests: Events, clicked: Events, skipped: Events) -> tf.Tensor:
        """-log p(next clicked | interest) - log (1 - p(next skipped | interest)), the mean over positions with a next event.

        Args:
            interests: H wide; clicked, skipped: the history and its negatives, C wide.
        """
        message = "Each event of a history must have one negative: the lists of a row are of different lengths."
        tf.debugging.assert_equal(clicked.splits, skipped.splits, message)
        weights = self.affine.scale.value, self.affine.shift.value, interest.layers_of(self.tower)
        followed = tf.maximum(clicked.splits[1:] - clicked.splits[:-1] - 1, 0)  # [B]
        return whole_batch.weighted(self.mean(interests, clicked, skipped, *weights), tf.reduce_sum(followed))

    def work(self, events: float, positions: float) -> Work:
        return auxiliary.OP.work(events, positions, *self.widths, self.units)


@keras.saving.register_keras_serializable("ctrlab")
class DIEN(CTRModel):
    presets: ClassVar = {
        "contest": Sizes(
            dim=18,
            units={"head": (200, 80), "attention": (80, 40), "auxiliary": (100, 50)},
            hyper=Hyper("adam_async", 1e-3, clip_norm=5.0),
        ),
        "small": Sizes(
            dim=16,
            units={"head": (64, 32), "attention": (32, 16), "auxiliary": (32, 16)},
            hyper=Hyper("adam_async", 4e-3, clip_norm=5.0, batch_size=256),
            l2=1e-5,
            momentum=0.9,
        ),
    }

    def __init__(self, schema, optimizations="none", seed=2021, embedding="hashed", sizes=None, name=None):
        super().__init__(schema, optimizations, seed, embedding, sizes, name)
        seeds = blocks.Seeds(seed)
        self.behaviour = interest.Behaviour(self.input_schema, "dien")
        self.encoder = blocks.Encoder(self.input_schema, rungs=self.rungs, negatives=self.behaviour.negatives)
        dim, units = self.sizes.dim, self.sizes.units
        width = hidden = dim * len(self.behaviour.histories)  # C, H
        self.embedding = tables.Embeddings(schema, dim, seeds, self.choices, rungs=self.rungs, **self.sizes.embeddings)
        self.extraction = interest.GRU(width, hidden, seeds, gru.OP.pick(self.rungs), name="extraction")
        judges = bool(self.behaviour.negatives)
        self.auxiliary = AuxiliaryNet(hidden, width, units["auxiliary"], seeds, self.rungs) if judges else None
        self.query = interest.Query(width, hidden, seeds, rungs=self.rungs)
        layers = (*units["attention"], 1)
        self.unit = blocks.Tower(4 * hidden, layers, seeds, name="attention", activation="sigmoid", linear_top=True)
        ways = gru.AUGRU.pick(self.rungs), shared_augru.OP.pick(self.rungs)
        self.evolution = interest.GRU(hidden, hidden, seeds, ways[0], name="evolution", shared=ways[1])
        self.attend = interest.Attention(self.rungs)
        inputs = len(self.behaviour.profile) * dim + self.encoder.number_count + 3 * width + hidden
        self.head = interest.Head(inputs, len(self.tasks), seeds, self.sizes, rungs=self.rungs)

    def call(self, features, training=False):
        ids, numbers = self.inputs(features, training)
        if training and self.auxiliary is not None:
            ids |= self.encoder.ids(features, self.encoder.negatives)
        profile, target, events, negatives = self.behaviour.embed(self.embedding, ids, training)
        interests, _ = self.extraction.over(events)
        if negatives is not None:
            self.add_loss(self.auxiliary.loss(interests, events, negatives))
        weights, _ = self.attend(self.query(target), interests, interest.layers_of(self.unit))
        _, evolved = self.evolution.over(interests, weights)  # [B, H]

        total = interest.total(events)  # [B, C]
        crossed = sharing.whole(target) * sharing.whole(total)  # [B, C]
        return self.head(sharing.side_by_side(*profile, target, total, crossed, evolved, numbers), training=training)  # [B, K]

    def work(self, rows: int, positions: float, distinct: float | None = None) -> Work:
        """The least work of one training step; see `CTRModel.work`. The lists of negatives have as many ids as the histories."""
        lists = len(self.behaviour.histories) + len(self.schema.multi_hots)
        events, width = positions / lists, self.sizes.dim * len(self.behaviour.histories)
        parts = [self.extraction, self.query, self.unit, self.evolution, self.head]
        ids = len(self.schema.categoricals) * rows + positions
        work = self.extraction.work(events) + self.evolution.work(events) + self.head.work(rows)
        unit = attention.OP.work(rows, events, width, self.sizes.units["attention"], attended=False)
        work += unit + dense_work((width, width), rows)
        if self.auxiliary is not None:
            parts.append(self.auxiliary)
            ids += events * len(self.behaviour.negatives)
            work += self.auxiliary.work(events, max(events - rows, 0))
        tables = blocks.lookup_work(ids, self.sizes.dim, slots=2, distinct=distinct)
        return work + tables + sparse_update.OP.work(blocks.weight_count(*parts), slots=2)
