"""The lookups of the models: embedding tables (hashed, compressed or growing), and the weights of the linear part.

A layer makes its weights in its constructor; see `ctrlab.models.blocks` for seeds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import tensorflow as tf

from ctrlab import devices, whole_batch
from ctrlab.embedding import multihash
from ctrlab.embedding.choices import Choice, Variable
from ctrlab.embedding.layer import Tables
from ctrlab.embedding.options import Initializer, L2Eviction, Options
from ctrlab.embedding.table.ops import grouped, is_served
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.errors import CtrlabError
from ctrlab.models import sharing
from ctrlab.models.blocks import Seeds
from ctrlab.models.graph_names import graph_name
from ctrlab.models.regularization import penalty
from ctrlab.models.shards import RowsOf
from ctrlab.ops import indicator, lookup
from ctrlab.profiling.parts import part
from ctrlab.schema import Schema


class Embeddings(keras.layers.Layer):
    """A table [V, D] per table of the schema, or its multi-hash parts, or an embedding variable; drawn with `deviation`.

    TensorFlow's embedding columns draw with a deviation of 1 / sqrt(D). But most ids are rare. In a sum of many rows, untrained
    rows with such large values drown the trained ones: on the real samples this costs up to .05 of AUC after two epochs
    beside the default, 0.05.

    Args:
        schema: its buckets are the rows of hashed tables; multi-hash tables are compressed relative to them.
        choices: {table: kind of embedding}; see `ctrlab.embedding.choices`.
        rungs: with "lookup" one op looks up all columns, with "stock" one per table; otherwise the stock library looks up each
            column. Columns of embedding variables are always looked up in one op.
        l2: the factor of the penalty on the embeddings that a training step reads.
    Attributes:
        growing: {table: EmbeddingVariable} of the tables with that choice.
    """

    def __init__(
        self,
        schema: Schema,
        dim: int,
        seeds: Seeds,
        choices: Mapping[str, Choice],
        *,
        rungs=(),
        l2: float = 0.0,
        deviation: float = 0.05,
        name: str = "embedding",
    ):
        super().__init__(name=name)
        self.schema, self.dim, self.l2, self.deviation = schema, dim, l2, deviation
        self._choices = {table: choices[table] for table in schema.tables}
        fixed = {table: rows for table, rows in schema.tables.items() if not isinstance(choices[table], Variable)}
        self.parts = {table: multihash.parts(choices[table], rows, dim) for table, rows in fixed.items()}
        self._seeds = {table: next(seeds) for table in schema.tables}
        self.at_once = lookup.OP.on(rungs)
        self.op = lookup.OP.pick(rungs)
        self.shard = whole_batch.shard()
        self.build()

    def build(self, input_shape=None):
        self.tables = {}
        for table, parts in self.parts.items():
            for k, (name, *shape) in enumerate(zip(parts.names(table), parts.rows, parts.dims)):
                # A model uses at most 1,000 seeds. The large distance keeps parts and models from drawing the same numbers.
                deviation, seed = parts.deviation(self.deviation), self._seeds[table] + k * 10**9
                draw = keras.initializers.RandomNormal(stddev=deviation, seed=seed)
                rows = shape[0]
                if not self.shard.whole:
                    draw, shape[0] = RowsOf(rows, self.shard, deviation, seed), self.shard.rows(rows)
                with _room(f"Table {name!r}", shape), devices.ours(self.at_once):
                    self.tables[name] = self.add_weight(shape=shape, initializer=draw, name=graph_name(name))
                self.tables[name].sharded, self.tables[name].rows_of_all = not self.shard.whole, rows
        wanted = {table: choice.options for table, choice in self._choices.items() if isinstance(choice, Variable)}
        self._growing = Tables({t: _grown(t, self.dim, o, self._seeds[t]) for t, o in wanted.items()}, name="growing")
        self.built = True

    @property
    def growing(self) -> dict[str, EmbeddingVariable]:
        return self._growing.tables

    @part("embedding")
    def lookup(self, ids: Mapping[str, lookup.Ids], *, pooled=(), summed=(), rows=(), training=False) -> list[sharing.Matrix]:
        """Embeddings of columns by name, side by side. Unknown ids and empty bags give zeros.

        Args:
            ids: int64 ids of each column, [B] or ragged [B, (L)]; a user's are looked up once.
            training: in an embedding variable an id without a row reads its initial value if true, else 0.
            pooled: lists of column names; each list gives one [B, names * D], with the mean of each bag.
            summed: the same with the sum of each bag.
            rows: lists of column names; each list gives one [N, names * D], one row per id; its columns must have equal lengths.
        """
        outputs = [(names, how) for how, lists in (("mean", pooled), ("sum", summed), ("rows", rows)) for names in lists]
        plain = {name: sharing.bare(each) for name, each in ids.items()}
        reads: dict[bool, tuple[_Reads, _Reads]] = {}  # whether of users: in fixed tables, in growing ones
        made = []
        for names, how in outputs:
            made.append([])
            for group, users in sharing.runs(names, ids):
                if (users is None) not in reads:
                    reads[users is None] = self._reads(training)
                fixed, growing = reads[users is None]
                notes = [self._note(fixed, growing, plain, run, how) for run in self._runs(group, plain, how)]
                made[-1] += [(note, users) for note in notes]
        for each in itertools.chain(*reads.values()):
            each.done()
        found = [sharing.side_by_side(*(sharing.wrapped(note(), users) for note, users in output)) for output in made]
        if training and self.l2:  # a sum is of rows that are among `rows`
            read = [tensor for tensor, (_, how) in zip(found, outputs) if how != "sum"]
            self.add_loss(penalty(self.l2, read))
        return found

    def reads(self, ids: Mapping[str, lookup.Ids]) -> list[tuple[EmbeddingVariable, lookup.Ids]]:
        """For the columns of `ids` in embedding variables: the variable, and the keys that are looked up in it."""
        tables = {column: self.schema[column].table for column in ids}
        return [(self.growing[table], ids[column]) for column, table in tables.items() if table in self.growing]

    def _reads(self, training: bool) -> tuple[_Reads, _Reads]:
        fixed = _Reads({name: table.value for name, table in self.tables.items()}, _of_shards(self.shard, self.op))
        return fixed, _Reads(self.growing, _of_shards(self.shard, functools.partial(grouped, training=bool(training)), True))

    def _runs(self, names, ids, how: str) -> list[list[str]]:
        """Splits `names` into runs of columns whose parts are combined in the same way, and so at once."""

        def alike(name: str) -> tuple:
            if self.schema[name].table in self.growing:
                return ("grow",)
            parts = self.parts[self.schema[name].table]
            if parts.operation == "concat":  # the lookup itself concatenates the parts
                return (parts.operation,)
            return (parts.operation, len(parts.rows), name if _product_of_bags(parts, ids[name], how) else None)

        return [list(run) for _, run in itertools.groupby(names, alike)]

    def _note(self, fixed: _Reads, growing: _Reads, ids, names: list[str], how: str) -> Callable[[], tf.Tensor]:
        """Registers the lookups of a run of columns. The returned function makes their embeddings after the ops have run."""
        if self.schema[names[0]].table in self.growing:
            side = growing.new_output()
            for name in names:
                growing.add(self.schema[name].table, ids[name], how, side)
            return lambda: growing.found[side]
        first, bag = self.parts[self.schema[names[0]].table], None
        if _product_of_bags(first, ids[names[0]], how):
            bag, pool = ids[names[0]], tf.math.unsorted_segment_mean if how == "mean" else tf.math.unsorted_segment_sum
        sides = [fixed.new_output() for _ in (first.rows if first.operation != "concat" else "1")]
        for name in names:
            column = self.schema[name]
            parts = self.parts[column.table]
            for k, (table, keys) in enumerate(zip(parts.names(column.table), multihash.keys(parts, ids[name]))):
                fixed.add(table, keys, "rows" if bag is not None else how, sides[k % len(sides)], column.encoding == "vocabulary")

        def joined() -> tf.Tensor:
            rows = multihash.join(first, [fixed.found[m] for m in sides])
            return rows if bag is None else pool(rows, bag.value_rowids(), bag.nrows())

        return joined


def _product_of_bags(parts: multihash.Parts, ids: lookup.Ids, how: str) -> bool:
    """Whether parts must be multiplied per id before pooling. Sums and concatenated parts can be pooled first."""
    return parts.operation == "multiply" and how != "rows" and isinstance(ids, tf.RaggedTensor)


def rows_of_all(table) -> int:
    """The number of rows of a table [V, D] on all workers together."""
    return getattr(table, "rows_of_all", table.shape[0])


class _Reads:
    """The lookups that one op will do in tables {name: the op's argument}, collected column by column.

    Attributes:
        found: after `done`, the result for each output, with its columns side by side.
    """

    def __init__(self, tables: Mapping[str, object], op: Callable[..., list[tf.Tensor]]):
        self.tables, self.op, self.outputs, self.columns = tables, op, 0, []
        self.found: Sequence[tf.Tensor] = ()

    def new_output(self) -> int:
        self.outputs += 1
        return self.outputs - 1

    def add(self, table: str, ids: lookup.Ids, combiner: str, output: int, unknown: bool = False) -> None:
        self.columns.append((table, ids, combiner, output, unknown))

    def done(self) -> None:
        if not self.columns:
            return
        tables, ids, combiners, outputs, unknown = zip(*self.columns)
        used = list(dict.fromkeys(tables))
        layout = lookup.Layout(
            table_of=tuple(used.index(table) for table in tables),
            combiners=combiners,
            output_of=outputs,
            unknown=frozenset(c for c, may_be in enumerate(unknown) if may_be),
        )
        self.found = self.op([self.tables[table] for table in used], ids, layout)


@contextlib.contextmanager
def _room(what: str, shape: Sequence[int]) -> Iterator[None]:
    try:
        yield
    except (tf.errors.ResourceExhaustedError, MemoryError):
        raise CtrlabError(
            f"{what} must fit in memory; it has {shape[0]:,} rows of {shape[1]} numbers: give its columns fewer `buckets`, or "
            'take embedding="variable", whose rows come with their ids.'
        ) from None


def _grown(name: str, dim: int, options: Options, seed: int) -> EmbeddingVariable:
    """An embedding variable of a model. Its seed combines the options' and the model's."""
    name = name if name.isprintable() and "/" not in name else graph_name(name)  # it takes all others, for its folder, too
    # A model uses at most 1,000 seeds, and seeds from users are small. The large distance keeps them from colliding.
    initializer = dataclasses.replace(options.initializer, seed=(options.initializer.seed * 10**9 + seed) % (1 << 63))
    shard, storage = whole_batch.shard(), options.storage
    if storage and not shard.whole:  # workers may share a disk
        storage = dataclasses.replace(storage, path=f"{storage.path}/worker-{shard.index}-of-{shard.count}")
    variable = EmbeddingVariable(name, dim, dataclasses.replace(options, initializer=initializer, storage=storage))
    variable.proxy.sharded = not shard.whole
    return variable


def _of_shards(shard: whole_batch.Shard, read: Callable, counted: bool = False) -> Callable:
    """Runs `read` on tables of which this worker holds a shard."""
    if shard.whole:
        return read

    def lookup(tables, columns, layout):
        if is_served():
            return read(tables, columns, layout)
        batch = whole_batch.batch()
        if batch is None:
            raise CtrlabError(
                "A model of several workers reads rows of the others, so all of them call it together; received a call of "
                f"worker {shard.index} of {shard.count} alone: train and evaluate it with `Run`."
            )
        return batch.lookup(read, tables, columns, layout, counted)

    return lookup


class Wide(keras.layers.Layer):
    """The linear part: multi-hot of the schema's wide columns, and the numbers -> [B, K]. See `ctrlab.ops.indicator`.

    A column whose table is an embedding variable gets a second variable here, with D = K and initial value 0. It uses the table's
    admission and its eviction by age, but not eviction by norm, whose threshold was chosen for vectors. A step changes only the
    weights of ids in the batch. The indicator's gradient is dense instead, so AdamAsync's momentum also changes other weights.

    Args:
        sizes: {wide column: width of its indicator}; ids of a column with more buckets are folded into this width.
        schema: the schema of the ids.
        choices: {table: kind of embedding}; only matters whether it is an embedding variable.
        rungs: "indicator" selects the compiled op, "stock" the gather; otherwise the stock one_hot.
        l2: the factor of the penalty on the weights of ids that a training step reads (of a bag in a variable: on their sum), and
            on those of numbers.
    Attributes:
        growing: {column: EmbeddingVariable}.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        schema: Schema,
        numbers: int,
        outputs: int,
        choices: Mapping[str, Choice],
        *,
        rungs=(),
        l2: float = 0.0,
        name: str = "linear",
    ):
        super().__init__(name=name)
        chosen = {column: choices[schema[column].table] for column in sizes}
        self._options = {column: choice.options for column, choice in chosen.items() if isinstance(choice, Variable)}
        self.sizes = {column: size for column, size in sizes.items() if column not in self._options}
        self.folded = {column: schema[column].buckets > size for column, size in self.sizes.items()}
        self.numbers, self.outputs, self.l2 = numbers, outputs, l2
        self.product, self.at_once = indicator.OP.pick(rungs), indicator.OP.on(rungs)
        self.shard = whole_batch.shard()
        self.build()

    def build(self, input_shape=None):
        if self.sizes:
            shape = (sum(self.sizes.values()), self.outputs)
            with _room("The linear part", shape), devices.ours(self.at_once):
                self.kernel = self.add_weight(shape=shape, initializer="zeros", name="indicator_kernel")
        self.bias = self.add_weight(shape=(self.outputs,), initializer="zeros", name="bias")
        if self.numbers:
            self.number_kernel = self.add_weight(shape=(self.numbers, self.outputs), initializer="zeros", name="number_kernel")
        self._growing = Tables({c: self._grown(c, o) for c, o in self._options.items()}, name="growing")
        self.built = True

    @classmethod
    def of(cls, model, numbers: int, outputs: int, name: str = "linear") -> Wide:
        """A model's linear part, over its schema's wide columns."""
        sizes = model.sizes.wide(model.schema)
        return cls(sizes, model.input_schema, numbers, outputs, model.choices, rungs=model.rungs, l2=model.sizes.l2, name=name)

    @property
    def growing(self) -> dict[str, EmbeddingVariable]:
        return self._growing.tables

    def reads(self, ids: Mapping[str, lookup.Ids]) -> list[tuple[EmbeddingVariable, lookup.Ids]]:
        """Like `Embeddings.reads`."""
        return [(variable, ids[column]) for column, variable in self.growing.items()]

    def _grown(self, column: str, options: Options) -> EmbeddingVariable:
        eviction = None if isinstance(options.eviction, L2Eviction) else options.eviction
        options = dataclasses.replace(options, initializer=Initializer("constant", 0.0), eviction=eviction)
        return _grown(f"{self.name}_{column}", self.outputs, options, seed=0)

    def call(self, ids: Mapping[str, tf.Tensor | tf.RaggedTensor], numbers: tf.Tensor | None = None, training=False):
        terms, squares = [], []  # [B, K] each: the weights' sums, and, for the penalty, those of their squares
        penalized = training and self.l2
        for columns, users in sharing.apart(self.sizes, ids) if self.sizes else ():
            words = {c: sharing.bare(ids[c]) for c in columns}
            words = [fold(each, self.sizes[c]) if self.folded[c] else each for c, each in words.items()]
            product = functools.partial(self.product, words, tuple(self.sizes[c] for c in columns))
            kernel = self._rows(columns)
            terms.append(sharing.wrapped(product(kernel), users))
            squares += [product(tf.square(kernel))] if penalized else []
        for columns, users in sharing.apart(self.growing, ids) if self.growing else ():
            weights = _Reads(self.growing, _of_shards(self.shard, functools.partial(grouped, training=bool(training)), True))
            for column in columns:
                weights.add(column, sharing.bare(ids[column]), "sum", 0)
            weights.done()
            sums = tf.reshape(weights.found[0], [-1, len(columns), self.outputs])  # [B, columns, K]
            terms.append(sharing.wrapped(tf.reduce_sum(sums, 1), users))
            squares.append(tf.reduce_sum(tf.square(sums), 1))
        logit = sharing.whole(sharing.added(terms)) + self.bias.value
        if penalized:
            self.add_loss(self.l2 * tf.add_n([tf.reduce_sum(square) for square in squares]))
        if penalized and self.numbers:
            self.add_loss(whole_batch.once(penalty(self.l2, [self.number_kernel.value])))
        return logit if numbers is None else logit + sharing.whole(sharing.product(numbers, self.number_kernel.value))

    def _rows(self, columns: Sequence[str]) -> tf.Tensor:
        """The linear weights of these columns' ids, one column after the other."""
        if len(columns) == len(self.sizes):
            return self.kernel.value
        ends = dict(zip(self.sizes, itertools.accumulate(self.sizes.values())))
        return tf.concat([self.kernel.value[ends[c] - self.sizes[c] : ends[c]] for c in columns], axis=0)


def fold(ids: lookup.Ids, size: int) -> lookup.Ids:
    """Ids, [B] or ragged [B, (L)], modulo `size`; -1, "unknown", stays -1."""
    if isinstance(ids, tf.RaggedTensor):
        return ids.with_flat_values(fold(ids.flat_values, size))
    return tf.where(ids < 0, ids, ids % size)
