"""Blocks that several models share: raw columns to ids and numbers, the dense tower; and the least work of a step.

Every block makes its weights in its constructor. Each model draws seeds from one `Seeds`, in the order of construction. So a
model's initial weights depend only on its seed and its schema, not on the optimizations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.models import raw, sharing
from ctrlab.models.regularization import Dropout, penalty
from ctrlab.ops import batch_norm as batch_norm_op
from ctrlab.ops import lookup, parsing
from ctrlab.ops.references import sparse_update
from ctrlab.profiling.parts import part
from ctrlab.profiling.work import Work, dense_work
from ctrlab.schema import IdColumn, Schema


class Seeds:
    """A stream of seeds: `next(seeds)`."""

    def __init__(self, seed: int):
        self._stream: Iterator[int] = iter(range(seed * 1_000, (seed + 1) * 1_000))

    def __next__(self) -> int:
        return next(self._stream)


STAGED = "staged"
"""The feature that holds the numbers after `Encoder.stage`."""


class Encoder:
    """Turns the raw features of a schema into ids per id column, and into one matrix of numbers.

    Features that were staged already pass unchanged; others are checked by `ctrlab.models.raw`.

    Args:
        rungs: only "parsing" has an effect here.
        negatives: DIEN's negative columns: they are read in training, but are not features.
    """

    def __init__(self, schema: Schema, *, rungs=(), negatives: Sequence[IdColumn] = ()):
        self.schema = schema
        self.id_columns = tuple(c for c in schema.id_columns if not getattr(c, "negative_of", ""))
        self.negatives = tuple(negatives)
        self.number_columns = (*schema.numerics, *schema.numeric_lists)
        self._ids, self._numbers = parsing.ids.OP.pick(rungs), parsing.numbers.OP.pick(rungs)

    @property
    def number_count(self) -> int:
        return len(self.number_columns)

    @part("input")
    def ids(self, features: Mapping[str, tf.Tensor], columns=None) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """{column: int64 ids, [B] or ragged [B, (L)]} of `columns`, by default `id_columns`."""
        columns = self.id_columns if columns is None else columns
        if STAGED in features:
            return {c.name: features[c.name] for c in columns}
        found = {}
        for group, users in sharing.apart(columns, features):
            ids = self._ids(group, raw.taken(group, features))
            found |= {c.name: sharing.wrapped(each, users) for c, each in zip(group, ids)}
        return {c.name: found[c.name] for c in columns}

    @part("input")
    def numbers(self, features: Mapping[str, tf.Tensor], checked: bool = True) -> sharing.Matrix | None:
        """float32 [B, numeric columns + numeric lists], clipped; None if the schema has no numbers.

        Args:
            checked: refuse numbers that are not finite. A training step refuses their loss or gradient, and changes nothing.
        """
        if not self.number_columns:
            return None
        if STAGED in features:
            return features[STAGED]
        runs = []
        for run, users in sharing.runs(self.number_columns, features):
            values = raw.taken(run, features)
            numbers = self._numbers(run, values)
            numbers = raw.finite(run, values, numbers) if checked else numbers
            runs.append(sharing.wrapped(raw.clipped(run, numbers, checked), users))
        return sharing.side_by_side(*runs)

    @tf.autograph.experimental.do_not_convert
    def stage(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """Computes `ids` and `numbers` from raw features and returns them as features, so that the training step need not."""
        numbers = self.numbers(features, checked=False)
        return self.ids(features, [*self.id_columns, *self.negatives]) | {STAGED: tf.zeros([0]) if numbers is None else numbers}


class Tower(keras.layers.Layer):
    """A stack of dense layers, [B, inputs] -> [B, units[-1]], with Glorot-uniform kernels and zero biases.

    Args:
        activation: after each layer; with `linear_top`, not after the last.
        batch_norm: a BatchNormalization after each activation (batch statistics in training, moving ones otherwise), with this
            momentum of the moving ones.
        dropout: the rate of dropout after each activation and normalization; l2: the factor of the penalty on the kernels.
        stack: a way of `ctrlab.ops.tower` that runs all layers below a linear top at once, if they use ReLU only. It is used
            where nothing comes between them.
        rungs: only "subgraphs" and "bf16" have an effect here. With "bf16" the products of all layers but a linear top are in
            bfloat16. Weights, biases, statistics and outputs stay float32.
    """

    def __init__(
        self,
        inputs: int,
        units,
        seeds: Seeds,
        *,
        name: str,
        activation="relu",
        batch_norm=False,
        momentum=0.99,
        dropout=0.0,
        l2=0.0,
        linear_top=False,
        rungs=(),
        stack: Callable | None = None,
    ):
        super().__init__(name=name)
        self.sizes = (inputs, *units)
        hidden = range(len(units) - linear_top)
        drawn = [next(seeds) for _ in units]
        self.layers = [
            keras.layers.Dense(
                n,
                activation=activation if i in hidden else None,
                kernel_initializer=keras.initializers.GlorotUniform(seed=drawn[i]),
                name=f"dense_{i}",
            )
            for i, n in enumerate(units)
        ]
        named = [keras.layers.BatchNormalization(momentum=momentum, name=f"norm_{i}") for i in hidden]
        self.norms = named if batch_norm else []
        # A model uses at most 1,000 seeds. The large distance keeps masks and kernels from being drawn of the same numbers.
        self.drops = [Dropout(dropout, drawn[i] + 10**9, name=f"drop_{i}") for i in hidden] if dropout else []
        self.l2 = l2
        self.norm, self.stack = batch_norm_op.OP.pick(rungs), stack
        self.folds = batch_norm_op.OP.on(rungs)
        self.half = hidden if "bf16" in rungs else ()
        self.build()

    def build(self, input_shape=None):
        for i, layer in enumerate(self.layers):
            layer.build((None, self.sizes[i]))
        for i, norm in enumerate(self.norms):
            norm.build((None, self.sizes[i + 1]))
        for drop in self.drops:
            drop.build()
        self.built = True

    def call(self, x, training=False):
        if training and self.l2:
            self.add_loss(whole_batch.once(penalty(self.l2, [layer.kernel.value for layer in self.layers])))
        layers = list(enumerate(self.layers))
        if self.stack is not None and not self.norms and not (training and self.drops):
            weights = ((self._narrow(i, layer.kernel.value), layer.bias.value) for i, layer in layers[:-1])
            x = self.stack(x, *zip(*weights))  # [B, units[-2]]
            layers = layers[-1:]
        before = None  # scale and shift of the normalization before this layer, where its weights take them over
        for i, layer in layers:
            kernel, bias = layer.kernel.value, layer.bias.value
            if before is not None:  # (x * scale + shift) W + b = x (scale * W) + (shift W + b)
                scale, shift = before
                kernel, bias = scale[:, None] * kernel, bias + tf.linalg.matvec(kernel, shift, transpose_a=True)
            kernel = self._narrow(i, kernel)
            product = sharing.whole(sharing.product(x, kernel))  # [B, units[i]]
            before, normalized = None, i < len(self.norms)
            if normalized and training and layer.activation is keras.activations.relu:
                x = self._normalized(tf.cast(product, tf.float32), layer, self.norms[i])
            else:
                # TensorFlow itself fuses product, bias and ReLU, so there is nothing left to fuse.
                x = layer.activation(tf.nn.bias_add(product, tf.cast(bias, product.dtype)))
                if normalized and self.folds and not training and i + 1 < len(self.layers):
                    before = self._affine(i)
                elif normalized:
                    x = self.norms[i](tf.cast(x, tf.float32), training=training)
            if training and i < len(self.drops):
                x = self.drops[i](tf.cast(x, tf.float32))
        return tf.cast(x, tf.float32)

    def _narrow(self, i: int, kernel: tf.Tensor) -> tf.Tensor:
        return tf.cast(kernel, tf.bfloat16) if i in self.half else kernel

    def _affine(self, i: int) -> tuple[tf.Tensor, tf.Tensor]:
        """The scale and the shift that normalization i applies outside of training."""
        norm = self.norms[i]
        scale = norm.gamma.value * tf.math.rsqrt(norm.moving_variance.value + norm.epsilon)
        return scale, norm.beta.value - norm.moving_mean.value * scale

    def _normalized(self, product, layer: keras.layers.Dense, norm: keras.layers.BatchNormalization):
        mean, variance = norm.moving_mean, norm.moving_variance
        vectors = (v.value for v in (layer.bias, norm.gamma, norm.beta, mean, variance))
        out, new_mean, new_variance = self.norm(product, *vectors, norm.epsilon, norm.momentum)
        mean.assign(new_mean)
        variance.assign(new_variance)
        return out

    def work(self, rows: float) -> Work:
        return dense_work(self.sizes, rows)


def lookup_work(ids: float, dim: int, slots: int, distinct: float | None = None) -> Work:
    """Lookup, gradient and optimizer step for `ids` ids in `distinct` table rows, by default one row per id."""
    distinct = ids if distinct is None else distinct
    return lookup.OP.work(ids, distinct, dim) + sparse_update.rows_work(distinct, dim, slots)


def linear_work(singles: float, positions: float, distinct: float | None = None) -> Work:
    """The linear part's lookup, gradient and step, for the ids of single columns and those of lists."""
    return Work(flops=4.0 * (singles + positions), random_rows=2 * min(singles, distinct or singles), row_bytes=4)


def weight_count(*layers: keras.layers.Layer) -> int:
    """Number of trainable weights in `layers`."""
    return sum(math.prod(v.shape) for layer in layers for v in layer.trainable_weights)
