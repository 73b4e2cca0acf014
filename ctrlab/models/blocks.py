"""What two or more models share: from raw columns to ids and numbers, the embedding tables, the dense tower, the wide part.

Every block makes its weights when it is constructed. Seeds are drawn from one `Seeds` a model, in the order of construction,
so that a model's first weights depend on its seed and schema alone, whatever optimizations are on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from ctrlab.embedding import multihash
from ctrlab.embedding.choices import Choice
from ctrlab.features import IdColumn, Schema
from ctrlab.ops import _native, batch_norm, indicator, lookup, parsing
from ctrlab.profiling.parts import part
from ctrlab.profiling.work import Work


class Seeds:
    """A stream of seeds: `next(seeds)`."""

    def __init__(self, seed: int):
        self._stream: Iterator[int] = iter(range(seed * 1_000, (seed + 1) * 1_000))

    def __next__(self) -> int:
        return next(self._stream)


STAGED = "staged"
"""The key under which features that `Encoder.stage` made hold their numbers."""


class Encoder:
    """Raw features of a schema -> ids of each id column, and the numbers side by side.

    Features that were staged are taken as they are.

    Args:
        fused: the rung "parsing"; else the stock ops, column by column.
        negatives: columns that are no features but read in training: DIEN's.
    """

    def __init__(self, schema: Schema, *, fused: bool = False, negatives: Sequence[IdColumn] = ()):
        self.schema = schema
        self.id_columns = tuple(c for c in schema.id_columns if not getattr(c, "negative_of", ""))
        self.negatives = tuple(negatives)
        self.number_columns = (*schema.numerics, *schema.numeric_lists)
        self._ids, self._numbers = (
            (parsing.ids.fused, parsing.numbers.fused) if fused else (parsing.ids.stock, parsing.numbers.stock)
        )
        if fused:
            _native.library()  # here, not in the middle of a trace, where its one sentence would get lost

    @property
    def number_count(self) -> int:
        return len(self.number_columns)

    @part("input")
    def ids(self, features: Mapping[str, tf.Tensor], columns=None) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """{column: int64 ids, [B] or ragged [B, (L)]} of `columns`, by default `id_columns`."""
        columns = self.id_columns if columns is None else columns
        if STAGED in features:
            return {c.name: features[c.name] for c in columns}
        return {c.name: ids for c, ids in zip(columns, self._ids(columns, [features[c.name] for c in columns]))}

    @part("input")
    def numbers(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor | None:
        """float32 [B, numeric columns + numeric lists], or None where the schema has no numbers."""
        if not self.number_columns:
            return None
        if STAGED in features:
            return features[STAGED]
        return self._numbers(self.number_columns, [features[c.name] for c in self.number_columns])

    def stage(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        """What `ids` and `numbers` make of raw features, as features: the work is done where this is called, not in the step."""
        numbers = self.numbers(features)
        return self.ids(features, [*self.id_columns, *self.negatives]) | {STAGED: tf.zeros([0]) if numbers is None else numbers}


class Embeddings(keras.layers.Layer):
    """A table [V, D] for each of the schema's, or the parts it is made of; embeddings are normal of standard deviation 0.05.

    TensorFlow's embedding columns draw at 1 / sqrt(D). But most ids are rare, and where many rows are summed, those that
    were never trained drown the rest: on the real samples that costs up to .05 of AUC after two epochs.

    Args:
        schema: its buckets are the rows of tables that are hashed, and what others are compressed from.
        choices: {table: how its embeddings are kept}; see `ctrlab.embedding.choices`.
        rungs: "lookup" looks all columns up in one op, "stock" table by table; else the stock library's lookups, one a column.
    """

    def __init__(
        self, schema: Schema, dim: int, seeds: Seeds, choices: Mapping[str, Choice], *, rungs=(), name: str = "embedding"
    ):
        super().__init__(name=name)
        self.schema, self.dim = schema, dim
        self.parts = {table: multihash.parts(choices[table], rows, dim) for table, rows in schema.tables.items()}
        self._seeds = {table: next(seeds) for table in schema.tables}
        self.at_once = "lookup" in rungs
        self.op = lookup.fused if self.at_once else lookup.by_table if "stock" in rungs else lookup.stock
        if self.at_once:
            _native.library()  # here, not in the middle of a trace, where its one sentence would get lost
        self.build()

    def build(self, input_shape=None):
        self.tables = {}
        for table, parts in self.parts.items():
            for k, (name, *shape) in enumerate(zip(parts.names(table), parts.rows, parts.dims)):
                # A model has 1,000 seeds: so far apart, no part draws the numbers of another, or of another model's.
                draw = keras.initializers.RandomNormal(stddev=parts.deviation(0.05), seed=self._seeds[table] + k * 10**9)
                self.tables[name] = self.add_weight(shape=shape, initializer=draw, name=name)
        self.built = True

    @part("embedding")
    def lookup(self, ids: Mapping[str, lookup.Ids], *, pooled=(), summed=(), rows=()) -> list[tf.Tensor]:
        """Embeddings of columns by name, side by side. Unknown ids and empty bags give zeros.

        Args:
            ids: int64 ids of each column, [B] or ragged [B, (L)].
            pooled: lists of names; each gives a [B, names * D], where a bag is its mean.
            summed: the same, where a bag is its sum.
            rows: lists of names; each gives an [N, names * D], a row for each of the N ids that all its columns have.
        """
        outputs = [(names, how) for how, lists in (("mean", pooled), ("sum", summed), ("rows", rows)) for names in lists]
        reads = _Reads(self.tables)
        made = [[self._note(reads, ids, run, how) for run in self._runs(names, ids, how)] for names, how in outputs]
        found = reads.done(self.op)
        pieces = [[piece(found) for piece in output] for output in made]
        return [tf.concat(output, axis=1) if len(output) > 1 else output[0] for output in pieces]

    def _runs(self, names, ids, how: str) -> list[list[str]]:
        """`names`, cut into runs of columns whose parts are joined alike: in one go."""

        def alike(name: str) -> tuple:
            parts = self.parts[self.schema[name].table]
            if parts.operation == "concat":  # the lookup itself sets rows side by side
                return (parts.operation,)
            return (parts.operation, len(parts.rows), name if _product_of_bags(parts, ids[name], how) else None)

        return [list(run) for _, run in itertools.groupby(names, alike)]

    def _note(self, reads: _Reads, ids, names: list[str], how: str) -> Callable[[list[tf.Tensor]], tf.Tensor]:
        """Notes what a run of columns reads; returns what makes their embeddings of all that was found."""
        first, bag = self.parts[self.schema[names[0]].table], None
        if _product_of_bags(first, ids[names[0]], how):
            bag, pool = ids[names[0]], tf.math.unsorted_segment_mean if how == "mean" else tf.math.unsorted_segment_sum
        sides = [reads.new_output() for _ in (first.rows if first.operation != "concat" else "1")]
        for name in names:
            column = self.schema[name]
            parts = self.parts[column.table]
            for k, (table, keys) in enumerate(zip(parts.names(column.table), multihash.keys(parts, ids[name]))):
                reads.add(table, keys, "rows" if bag is not None else how, sides[k % len(sides)], column.encoding == "vocabulary")

        def joined(found: list[tf.Tensor]) -> tf.Tensor:
            rows = multihash.join(first, [found[m] for m in sides])
            return rows if bag is None else pool(rows, bag.value_rowids(), bag.nrows())

        return joined


def _product_of_bags(parts: multihash.Parts, ids: lookup.Ids, how: str) -> bool:
    """Whether rows must be multiplied, id by id, before they are pooled; sums and rows side by side can be pooled first."""
    return parts.operation == "multiply" and how != "rows" and isinstance(ids, tf.RaggedTensor)


class _Reads:
    """What one op is to look up in tables {name: variable}, noted column by column."""

    def __init__(self, tables: Mapping[str, keras.Variable]):
        self.tables, self.outputs, self.columns = tables, 0, []

    def new_output(self) -> int:
        self.outputs += 1
        return self.outputs - 1

    def add(self, table: str, ids: lookup.Ids, combiner: str, output: int, unknown: bool) -> None:
        self.columns.append((table, ids, combiner, output, unknown))

    def done(self, op: Callable) -> list[tf.Tensor]:
        """Of each output, its columns side by side."""
        tables, ids, combiners, outputs, unknown = zip(*self.columns)
        used = list(dict.fromkeys(tables))
        layout = lookup.Layout(
            table_of=tuple(used.index(table) for table in tables),
            combiners=combiners,
            output_of=outputs,
            unknown=frozenset(c for c, may_be in enumerate(unknown) if may_be),
        )
        return op([self.tables[table].value for table in used], ids, layout)


class Tower(keras.layers.Layer):
    """Dense layers one after another: [B, inputs] -> [B, units[-1]]; Glorot-uniform kernels, zero biases.

    Args:
        activation: after each layer but, with `linear_top`, the last.
        batch_norm: a BatchNormalization after each activation (batch statistics in training, moving ones otherwise).
        rungs: "subgraphs" and "bf16" count here. In bfloat16 are the products of all layers but a linear top; what is kept
            (weights, biases, statistics) and what comes out is float32.
    """

    def __init__(
        self, inputs: int, units, seeds: Seeds, *, name: str, activation="relu", batch_norm=False, linear_top=False, rungs=()
    ):
        super().__init__(name=name)
        self.sizes = (inputs, *units)
        last = len(units) - 1 if linear_top else None
        self.layers = [
            keras.layers.Dense(
                n,
                activation=None if i == last else activation,
                kernel_initializer=keras.initializers.GlorotUniform(seed=next(seeds)),
                name=f"dense_{i}",
            )
            for i, n in enumerate(units)
        ]
        self.norms = [keras.layers.BatchNormalization(name=f"norm_{i}") for i in range(len(units))] if batch_norm else []
        self.fused = "subgraphs" in rungs
        if self.fused:
            _native.library()  # here, not in the middle of a trace
        self.half = range(len(units) - linear_top) if "bf16" in rungs else ()
        self.build()

    def build(self, input_shape=None):
        for i, layer in enumerate(self.layers):
            layer.build((None, self.sizes[i]))
            if self.norms:
                self.norms[i].build((None, self.sizes[i + 1]))
        self.built = True

    def call(self, x, training=False):
        for i, layer in enumerate(self.layers):
            kernel = layer.kernel.value
            if i in self.half:
                x, kernel = tf.cast(x, tf.bfloat16), tf.cast(kernel, tf.bfloat16)
            product = tf.matmul(tf.cast(x, kernel.dtype), kernel)  # [B, units[i]]
            if self.fused and self.norms and training and layer.activation is keras.activations.relu:
                x = self._norm_at_once(tf.cast(product, tf.float32), layer, self.norms[i])
                continue
            # TensorFlow itself makes one op of product, bias and ReLU: nothing is left there to fuse.
            x = layer.activation(tf.nn.bias_add(product, tf.cast(layer.bias.value, product.dtype)))
            if self.norms:
                x = self.norms[i](tf.cast(x, tf.float32), training=training)
        return tf.cast(x, tf.float32)

    @staticmethod
    def _norm_at_once(product, layer: keras.layers.Dense, norm: keras.layers.BatchNormalization):
        mean, variance = norm.moving_mean, norm.moving_variance
        vectors = (v.value for v in (layer.bias, norm.gamma, norm.beta, mean, variance))
        out, new_mean, new_variance = batch_norm.fused(product, *vectors, norm.epsilon, norm.momentum)
        mean.assign(new_mean)
        variance.assign(new_variance)
        return out

    def work(self, rows: float) -> Work:
        return dense_work(self.sizes, rows)


class Wide(keras.layers.Layer):
    """The linear part: multi-hot of the schema's wide columns and the numbers -> [B, K]. See `ctrlab.ops.indicator`.

    Args:
        sizes: {wide column: width of its indicator}; ids of a column with more buckets are folded into it.
        schema: that of the ids.
        rungs: "indicator" is the compiled op, "stock" the gathered way; else the stock one_hot.
    """

    def __init__(self, sizes: Mapping[str, int], schema: Schema, numbers: int, outputs: int, *, rungs=(), name: str = "linear"):
        super().__init__(name=name)
        self.columns, self.sizes = tuple(sizes), tuple(sizes.values())
        self.folded = [schema[column].buckets > size for column, size in sizes.items()]
        self.numbers, self.outputs = numbers, outputs
        fused = "indicator" in rungs
        self.product = indicator.fused if fused else indicator.gathered if "stock" in rungs else indicator.stock
        if fused:
            _native.library()  # here, not in the middle of a trace, where its one sentence would get lost
        self.build()

    def build(self, input_shape=None):
        self.kernel = self.add_weight(shape=(sum(self.sizes), self.outputs), initializer="zeros", name="indicator_kernel")
        self.bias = self.add_weight(shape=(self.outputs,), initializer="zeros", name="bias")
        if self.numbers:
            self.number_kernel = self.add_weight(shape=(self.numbers, self.outputs), initializer="zeros", name="number_kernel")
        self.built = True

    def call(self, ids: Mapping[str, tf.Tensor | tf.RaggedTensor], numbers: tf.Tensor | None = None):
        words = [fold(ids[c], n) if folded else ids[c] for c, n, folded in zip(self.columns, self.sizes, self.folded)]
        logit = self.product(words, self.sizes, self.kernel.value) + self.bias.value  # [B, K]
        return logit if numbers is None else logit + tf.matmul(numbers, self.number_kernel.value)


def fold(ids: lookup.Ids, size: int) -> lookup.Ids:
    """Ids, [B] or ragged [B, (L)], modulo `size`; -1, "unknown", stays -1."""
    if isinstance(ids, tf.RaggedTensor):
        return ids.with_flat_values(fold(ids.flat_values, size))
    return tf.where(ids < 0, ids, ids % size)


def dense_work(sizes, rows: float) -> Work:
    """Forward and backward of dense layers of `sizes` on `rows` rows: three products of 2 in out flops each a layer."""
    pairs = list(itertools.pairwise(sizes))
    flops = sum(6.0 * rows * i * o for i, o in pairs)
    # Activations are written and read once each way; kernels are read twice and their gradient is written once.
    floats = sum(4 * rows * o + 3 * i * o for i, o in pairs)
    return Work(flops=flops, bytes=4.0 * floats)


def lookup_work(rows: float, dim: int, slots: int) -> Work:
    """Lookup, gradient and optimizer step of `rows` ids: the row and each of its slots come from memory once, a row each.

    It is read for the lookup and, still in a cache, read and written by the step.
    """
    return Work(flops=10.0 * rows * dim, bytes=0.0, random_rows=rows * (1 + slots), row_bytes=4 * dim)


def dense_update_work(weights: float, slots: int) -> Work:
    """The optimizer's step on dense weights: gradient read, weight and slots read and written."""
    return Work(flops=10.0 * weights, bytes=4.0 * weights * (1 + 2 * (1 + slots)))


def weight_count(*layers: keras.layers.Layer) -> int:
    """Trainable numbers in `layers`."""
    return sum(math.prod(v.shape) for layer in layers for v in layer.trainable_weights)
