"""A Keras layer over embedding variables: columns may share tables, and one op looks up all columns."""

from __future__ import annotations

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from ctrlab import keras_hooks
from ctrlab.embedding.options import Options
from ctrlab.embedding.table import ops as table_ops
from ctrlab.embedding.table_state import FIELDS, TableState
from ctrlab.embedding.variable import Closes, EmbeddingVariable, close
from ctrlab.errors import CtrlabError, choose
from ctrlab.ops.references.lookup import COMBINERS, Layout

ONE = "keys"
"""The column name of a layer with one column."""
_PARTS = [name for name in FIELDS if name != "removed"]
"""The arrays of a whole table, besides its slots."""


class Tables(Closes, keras.layers.Layer):
    """Embedding variables as the weights of a layer: they are trained, saved and loaded with its model.

    Args:
        tables: {name: EmbeddingVariable}; a subclass may pass them later to `hold`.
    """

    def __init__(self, tables: Mapping[str, EmbeddingVariable] | None = None, name: str | None = None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.supports_jit = False  # XLA knows none of our ops
        if tables is not None:
            self.hold(tables)

    def hold(self, tables: Mapping[str, EmbeddingVariable]) -> None:
        """Takes {name: table} as its weights; call it once."""
        self.tables = dict(tables)
        self.proxies = [table.proxy for table in self.tables.values()]  # Keras searches a layer's attributes for its weights
        for name, table in self.tables.items():
            keras_hooks.track(self, table, f"table_{name}")  # TensorFlow does not search Keras's dictionaries
        self.built = True

    def close(self) -> None:
        """Closes the tables: `EmbeddingVariable.close`."""
        close(self)

    def save_own_variables(self, store):
        for t, table in enumerate(self.tables.values()):
            table.require_one_piece()
            state = table.state()
            arrays = {part: getattr(state, part) for part in _PARTS}
            for part, array in (arrays | {f"slots.{slot}": array for slot, array in state.slots.items()}).items():
                store[f"{t}.{part}"] = array

    def load_own_variables(self, store):
        names = store.keys()  # a store has keys() but is not iterable
        arrays = {key: np.asarray(store[key]) for key in names}
        for t, (name, table) in enumerate(self.tables.items()):
            found = {key.removeprefix(f"{t}."): array for key, array in arrays.items() if key.startswith(f"{t}.")}
            if missing := sorted(set(_PARTS) - set(found)):
                raise CtrlabError(f"Layer {self.name} needs what table {name} held; these weights have no {missing[0]} of it.")
            slots = {key.removeprefix("slots."): array for key, array in found.items() if key.startswith("slots.")}
            table.load_state(TableState(slots=slots, **{part: found[part] for part in _PARTS}))


@keras.saving.register_keras_serializable("ctrlab")
class Embedding(Tables):
    """Embeddings of int64 keys, without a vocabulary, hashing or collisions.

    With one column it takes keys. With several it takes {column: keys} and returns {column: embeddings}. Keys are

        [B] or [B, L], or ragged [B, (L)]    combiner "sum" or "mean"   ->  float32 [B, D]
        [...], or ragged [B, (L)]            combiner "rows"            ->  float32 [..., D], or ragged [B, (L), D]

    Any int64 is a valid key, so no key can serve as padding: pass lists of different lengths as ragged tensors. In training a key
    without a row reads its initial value, otherwise 0. Compile the model with a `ctrlab.training.TouchedRows`; it also scales the
    loss under the policy mixed_float16. XLA can't compile it: Keras says so where a model is compiled with
    jit_compile=True, and goes on without.

    `model.save("m.keras")` and `save_weights` write the tables and the optimizer's slots as arrays among the weights (an HDF5
    file inside the .keras archive). That takes 24 + 4 D (1 + slots) bytes per key: ten million keys of D = 8 take 560 MB. One
    copy is held in memory, both ways. `tf.saved_model.save`, `model.export` and `tf.train.Checkpoint` write them as tensors.
    All of these are limited to tables of 4 GB, because they do not write in parts; `ctrlab.training.Checkpoints` do.

    `get_weights` and `set_weights`, and so `EarlyStopping(restore_best_weights=True)`, also copy rows, counts and slots, which
    takes the same memory. The copies are only valid in this process; plain arrays without rows are refused.

    Args:
        dim: D.
        columns: {column: table}; columns that name the same table share it. None: one column; its table has the layer's name.
        combiner: "sum", "mean" or "rows"; or {column: one of them}.
        options: for every table; or {table: options}.
    Raises:
        CtrlabError, UnknownName: a combiner or options for an unknown column or table; whatever `EmbeddingVariable` refuses.

    >>> layer = Embedding(16, columns={"item": "items", "history": "items"}, combiner={"item": "rows", "history": "mean"})
    """

    def __init__(
        self,
        dim: int,
        columns: Mapping[str, str] | None = None,
        combiner: str | Mapping[str, str] = "mean",
        options: Options | Mapping[str, Options] | None = None,
        name: str | None = None,
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        self.dim, self.single = dim, columns is None
        if not (self.single or (isinstance(columns, Mapping) and columns)):
            raise CtrlabError(f"The columns of layer {self.name} must be a mapping {{column: table}}; received {columns!r}.")
        self.columns = {ONE: self.name} if self.single else dict(columns)
        used = list(dict.fromkeys(self.columns.values()))
        self.combiners = _each(self.columns, "combiner", combiner)
        for column, combiner in self.combiners.items():
            choose(f"combiner of column {column!r}", combiner, COMBINERS)
        self.options = _each(used, "options", options or Options())
        self.build()

    def build(self, input_shape=None):
        if self.built:
            return
        self.hold({table: EmbeddingVariable(table, self.dim, self.options[table]) for table in self.options})
        for proxy in self.proxies:
            proxy.read_as = self.compute_dtype

    def call(self, keys, training=False):
        if self.single == isinstance(keys, Mapping):
            takes = "keys, and no dict" if self.single else f"{{column: keys}} for {', '.join(self.columns)}"
            raise CtrlabError(f"Layer {self.name} takes {takes}; received a {type(keys).__name__}: see its argument `columns`.")
        given = {ONE: keys} if self.single else dict(keys)
        if set(given) != set(self.columns):
            raise CtrlabError(f"Layer {self.name} looks up the columns {sorted(self.columns)}; received {sorted(given)}.")
        used = list(self.tables)
        layout = Layout(
            table_of=tuple(used.index(table) for table in self.columns.values()),
            combiners=tuple(self.combiners[column] for column in self.columns),
            output_of=tuple(range(len(self.columns))),
        )
        flat = [_column(column, given[column], self.combiners[column]) for column in self.columns]
        found = table_ops.grouped(list(self.tables.values()), flat, layout, bool(training))
        found = [tf.cast(rows, self.compute_dtype) for rows in found]
        out = {column: self._shaped(given[column], rows, column) for column, rows in zip(self.columns, found)}
        return out[ONE] if self.single else out

    def _shaped(self, keys, rows: tf.Tensor, column: str):
        if self.combiners[column] != "rows":
            return rows  # [B, D]
        if isinstance(keys, tf.RaggedTensor):
            return keys.with_values(rows)  # [B, (L), D]
        out = tf.reshape(rows, tf.concat([tf.shape(keys), [self.dim]], 0))  # [..., D]
        return tf.ensure_shape(out, [*keys.shape, self.dim])

    def get_config(self):
        return super().get_config() | {
            "dim": self.dim,
            "columns": None if self.single else dict(self.columns),
            "combiner": self.combiners[ONE] if self.single else dict(self.combiners),
            "options": {table: options.to_config() for table, options in self.options.items()},
        }

    @classmethod
    def from_config(cls, config):
        options = {table: Options.from_config(values) for table, values in config["options"].items()}
        return cls(**config | {"options": next(iter(options.values())) if config["columns"] is None else options})


def _each(names, what: str, values) -> dict:
    """One value per name: the same for all, or taken from a mapping."""
    if not isinstance(values, Mapping):
        return {name: values for name in names}
    if odd := sorted(set(values) ^ set(names)):
        raise CtrlabError(f"Give {what} for each of {', '.join(names)}, or one for all; {odd[0]!r} is named on one side only.")
    return {name: values[name] for name in names}


def _column(name: str, keys, combiner: str):
    """Keys in the form that the op takes: [n], or ragged [B, (L)]."""
    if not isinstance(keys, tf.RaggedTensor):
        try:
            keys = tf.convert_to_tensor(keys)
        except (TypeError, ValueError):
            raise CtrlabError(f"Keys are an int64 or a ragged tensor; received {keys!r} in column {name!r}.") from None
    if keys.dtype != tf.int64:  # without a keras.Input, Keras casts a model's first input to float32
        raise CtrlabError(
            f"Keys must be int64; received {keys.dtype.name} in column {name!r}: cast them, and begin the model with "
            "keras.Input(..., dtype='int64')."
        )
    if isinstance(keys, tf.RaggedTensor):
        if keys.ragged_rank != 1 or keys.values.shape.rank != 1:
            raise CtrlabError(f"Ragged keys must be [B, (L)]; received {keys.shape} in column {name!r}.")
        return keys
    flat = tf.reshape(keys, [-1])
    if combiner == "rows" or keys.shape.rank == 1:
        return flat
    if keys.shape.rank != 2:
        raise CtrlabError(
            f"Keys that are pooled must be [B], [B, L] or ragged [B, (L)]; received {keys.shape} in column {name!r}."
        )
    rows, length = tf.unstack(tf.shape(keys, tf.int64))
    return tf.RaggedTensor.from_row_splits(flat, tf.range(rows + 1) * length, validate=False)
