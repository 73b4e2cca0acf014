"""MMoE: several experts read the same input, and each task mixes their outputs with its own gate.

    Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts", KDD 2018.

                             +--> expert 1: 256-192-128-64 ReLU --+
    ids --> embeddings ------+--> ...                             +--> experts [E, B, H]
            and numbers [B, I]--> expert E                      --+         |
                      |                                                     v
                      +--> a softmax gate per task [B, E] ---> sum over E [B, H] --> tower 256-192-128-64 ReLU --> logit
                                                                       (one per task)                           [B, K]

The sizes are DeepRec's. The E experts share one packed variable per layer, [E, in, out]. At size "few_rows" a linear part like
WDL's is added to the logits.
"""

from __future__ import annotations

from typing import ClassVar

import keras
import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.errors import CtrlabError
from ctrlab.models import blocks, regularization, sharing, tables
from ctrlab.models.base import CTRModel
from ctrlab.models.graph_names import graph_name
from ctrlab.models.sizes import Hyper, Sizes
from ctrlab.ops import experts, mixture, sparse_update, tower
from ctrlab.profiling.work import Work

MULTIPLE = 16
"""The compiled op takes layers whose number of units is a multiple of this."""


class Experts(keras.layers.Layer):
    """E towers side by side: [B, inputs] -> [E, B, units[-1]]; ReLU after each layer. See `ctrlab.ops.experts`.

    The op runs an expert's layers as one, so dropout comes only after the last of them.
    """

    def __init__(self, count: int, inputs: int, units, seeds: blocks.Seeds, *, dropout=0.0, l2=0.0, rungs=(), name: str):
        super().__init__(name=name)
        self.experts, self.sizes = count, (inputs, *units)
        self.product, self.l2 = experts.OP.pick(rungs), l2
        self._seeds = [[next(seeds) for _ in range(count)] for _ in units]
        drawn = self._seeds[-1][0] + 10**9
        self.drop = regularization.Dropout(dropout, drawn, name="drop", examples=1) if dropout else None
        self.build()

    def build(self, input_shape=None):
        self.kernels, self.biases = [], []
        for i, (inputs, outputs) in enumerate(zip(self.sizes, self.sizes[1:])):
            # Glorot's limits are for one expert's [in, out], so each expert is drawn separately.
            kernel = self.add_weight(shape=(self.experts, inputs, outputs), initializer="zeros", name=f"kernel_{i}")
            kernel.assign(tf.stack([keras.initializers.GlorotUniform(seed=s)((inputs, outputs)) for s in self._seeds[i]]))
            self.kernels.append(kernel)
            self.biases.append(self.add_weight(shape=(self.experts, 1, outputs), initializer="zeros", name=f"bias_{i}"))
        if self.drop is not None:
            self.drop.build()
        self.built = True

    def call(self, x, training=False):
        kernels = [kernel.value for kernel in self.kernels]
        if training and self.l2:
            self.add_loss(whole_batch.once(regularization.penalty(self.l2, kernels)))
        out = self.product(x, kernels, [b.value for b in self.biases])  # [E, B, units[-1]]
        return self.drop(out) if training and self.drop is not None else out

    def work(self, rows: float) -> Work:
        return experts.OP.work(rows, self.experts, self.sizes)


@keras.saving.register_keras_serializable("ctrlab")
class MMoE(CTRModel):
    # DeepRec's documentation says Adagrad at 0.1, its code AdamAsync. Adagrad's accumulator starts at 0.1. The gradient of one
    # embedding row is negligible beside that, so with Adagrad the tables hardly learn.
    presets: ClassVar = {
        "contest": Sizes(
            dim=16,
            units={"experts": (256, 192, 128, 64), "towers": (256, 192, 128, 64)},
            hyper=Hyper("adam_async", 1e-3),
        ),
        "small": Sizes(
            dim=4,
            units={"experts": (32,), "towers": (32,)},
            hyper=Hyper("adagrad", 0.02, batch_size=128, initial_accumulator=1e-3),
            dropout=0.2,
            l2=1e-4,
            momentum=0.9,
            deviation=0.02,
            scaled=True,
        ),
        "few_rows": Sizes.few_rows(experts=(16,), towers=(16,)),
    }
    expert_count = 4

    def __init__(self, schema, optimizations="none", seed=2021, embedding="hashed", sizes=None, name=None):
        super().__init__(schema, optimizations, seed, embedding, sizes, name)
        seeds = blocks.Seeds(seed)
        self.encoder = blocks.Encoder(self.input_schema, rungs=self.rungs)
        self.fields = self.field_names()
        dim, units = self.sizes.dim, self.sizes.units
        for part, layers in units.items():
            if odd := [n for n in layers if n % MULTIPLE]:
                raise CtrlabError(f"MMoE's layers have multiples of {MULTIPLE} units; those of {part!r} have {odd[0]}.")
        self.embedding = tables.Embeddings(schema, dim, seeds, self.choices, rungs=self.rungs, **self.sizes.embeddings)
        inputs, mixed = len(self.fields) * dim + self.encoder.number_count, units["experts"][-1]
        options = {"dropout": self.sizes.dropout, "l2": self.sizes.l2, "rungs": self.rungs}
        self.experts = Experts(self.expert_count, inputs, units["experts"], seeds, name="experts", **options)
        self.linear = tables.Wide.of(self, self.encoder.number_count, len(self.tasks)) if self.sizes.linear else None
        self.mixture = mixture.OP.pick(self.rungs)
        self.gates, self.towers, stack = [], [], tower.OP.pick(self.rungs)
        for task in self.tasks:
            self.gates.append(blocks.Tower(inputs, (self.expert_count,), seeds, name=f"gate_{graph_name(task)}", linear_top=True))
            options = {"linear_top": True, "rungs": self.rungs, "stack": stack} | self.sizes.tower
            self.towers.append(blocks.Tower(mixed, (*units["towers"], 1), seeds, name=f"tower_{graph_name(task)}", **options))

    def call(self, features, training=False):
        ids, numbers = self.inputs(features, training)
        (x,) = self.embedding.lookup(ids, pooled=[self.fields], training=training)  # [B, F * D]
        x = sharing.whole(sharing.side_by_side(x, numbers))  # [B, I]
        gates = [gate.layers[0] for gate in self.gates]
        kernels, biases = [gate.kernel.value for gate in gates], [gate.bias.value for gate in gates]
        mixed = self.mixture(x, self.experts(x, training=training), kernels, biases)  # K of [B, H]
        logits = [tower(x, training=training) for tower, x in zip(self.towers, mixed)]  # K of [B, 1]
        logits = tf.concat(logits, axis=1)  # [B, K]
        return logits if self.linear is None else logits + self.linear(ids, numbers, training=training)

    def work(self, rows: int, positions: float, distinct: float | None = None) -> Work:
        """The least work of one training step; see `CTRModel.work`."""
        parts = [self.experts, *self.gates, *self.towers]
        work = blocks.lookup_work(len(self.schema.categoricals) * rows + positions, self.sizes.dim, slots=2, distinct=distinct)
        work += self.experts.work(rows)
        work += mixture.OP.work(rows, self.experts.sizes[0], self.expert_count, len(self.tasks), self.sizes.units["experts"][-1])
        for layer in self.towers:
            work += layer.work(rows)
        if self.linear is not None:
            work += blocks.linear_work(len(self.schema.categoricals) * rows, positions, distinct)
            parts.append(self.linear)
        return work + sparse_update.OP.work(blocks.weight_count(*parts), slots=2)
