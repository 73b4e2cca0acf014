"""Lookup of many columns from many embedding variables in one op, its gradient, and the optimizer step on that gradient.

Admission and eviction count occurrences, so a gradient has to carry how often each key came. `tf.IndexedSlices` can only say this
by its indices: they repeat a key once per occurrence. The first repetition carries the sum of the key's gradients, the others
carry zeros. So no state is kept between gradient and step. A gradient that is thrown away is not counted. Gradients that are
added (concatenated) add their counts, and a user's own gradient counts each index once. The norm equals that of the merged
gradient, so clipping by norm outside this module is correct. In a graph without other ops between gradient and optimizer, the
step takes merged rows and counts directly, and the zeros are never written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

import tensorflow as tf

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops.lookup import Ids, Layout, agree, handle_of, ids_and_splits
from ctrlab.ops.refusals import one_sentence
from ctrlab.ops.sparse_update import Rule

if TYPE_CHECKING:
    from ctrlab.embedding.variable import EmbeddingVariable


_served: ContextVar[Mapping[EmbeddingVariable, tf.Tensor] | None] = ContextVar("served", default=None)


@contextlib.contextmanager
def served_by(handles: Mapping[EmbeddingVariable, tf.Tensor]) -> Iterator[None]:
    """Lookups made in this block read the tables behind these handles instead of the variables, and have no gradient.

    Args:
        handles: {variable: handle} of every variable that is looked up.
    """
    before = _served.set(handles)
    try:
        yield
    finally:
        _served.reset(before)


def is_served() -> bool:
    """Whether the current code runs in a block of `served_by`, as in a server. A server has whole tables, a worker only its
    shards.
    """
    return _served.get() is not None


def grouped(
    tables: Sequence[EmbeddingVariable],
    columns: Sequence[Ids],
    layout: Layout,
    training: bool,
    times: Sequence[tf.Tensor] = (),
) -> list[tf.Tensor]:
    """Looks up all columns in one op, like `ctrlab.ops.lookup` for dense tables, except that every id is a valid key.

    Args:
        tables: T embedding variables.
        columns: C int64 columns of keys, each a Tensor [B] (one key per example) or a RaggedTensor [B, (L)].
        layout: for each column: its table, its combiner, and its place in the outputs.
        training: a key without a row reads its initial value if true, else 0.
        times: for each column int64 [N], how many occurrences each of its keys stands for: a worker sends each key of its batch
            once. The gradient counts them; the outputs do not change. Every column's combiner must then be "rows". Empty: each
            key stands for one occurrence.
    Returns:
        float32 outputs: [B, width] for pooled columns, [N, width] for columns whose keys keep their rows.
    Raises:
        CtrlabError: the columns don't fit the layout, or keys are not int64; a table is closed; splits or shapes disagree; times
            are below 1, or 2^31 or more together in a column. For all but the first two a graph raises InvalidArgumentError when
            it runs.
    """
    agree(tables, columns, layout)
    served = _served.get()
    with one_sentence():
        return _native.library().ops.ctrlab_embedding_lookup(
            tables=[served[table] if served else table.resource_handle for table in tables],
            proxies=[] if served else [handle_of(table.proxy.value) for table in tables],
            **ids_and_splits(columns),
            times=times,
            table_dims=[table.dim for table in tables],
            table_of=layout.table_of,
            output_of=layout.output_of,
            combiners=layout.combiners,
            M=layout.outputs,
            training=training,
        )


@tf.RegisterGradient("Ctrlab>EmbeddingLookup")
def _gradient(op: tf.Operation, *d_out: tf.Tensor) -> list:
    tables, columns = op.get_attr("T"), op.get_attr("C")
    dims = op.get_attr("table_dims")
    inputs = list(op.inputs)
    merged = _native.library().ops.ctrlab_embedding_lookup_gradient(
        ids=inputs[2 * tables : 2 * tables + columns],
        splits=inputs[2 * tables + columns : 2 * tables + 2 * columns],
        times=inputs[2 * tables + 2 * columns :],
        d_out=[tf.convert_to_tensor(d) for d in d_out],
        T=tables,
        table_dims=dims,
        **{name: op.get_attr(name) for name in ("table_of", "output_of", "combiners")},
    )
    slices = []
    for keys, counts, rows, dim in zip(merged.merged_keys, merged.counts, merged.merged_rows, dims):
        spread = _native.library().ops.ctrlab_embedding_spread(merged_keys=keys, counts=counts, merged_rows=rows)
        slices.append(tf.IndexedSlices(spread.rows, spread.keys, tf.constant([0, dim], tf.int64)))
    return [None] * tables + slices + [None] * (len(inputs) - 2 * tables)


def merged_gradient(table: EmbeddingVariable, gradient: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Merges a gradient of `table.proxy` so that each key comes once.

    Returns:
        keys int64 [u], ascending; their occurrences, int64 [u]; the sums of their rows, float32 [u, D].
    Raises:
        CtrlabError: the gradient does not consist of rows of D numbers with int64 keys.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        raise CtrlabError(
            f"The gradient of embedding variable {table.name} must be tf.IndexedSlices, rows under keys; received a dense one: "
            "a penalty on all rows of a table that has no fixed rows is not defined."
        )
    keys, rows = gradient.indices, gradient.values
    if keys.dtype != tf.int64 or rows.dtype != tf.float32 or not rows.shape.is_compatible_with([None, table.dim]):
        raise CtrlabError(
            f"The gradient of embedding variable {table.name} must be float32 rows of {table.dim} under int64 keys; received "
            f"{rows.dtype.name} {rows.shape} under {keys.dtype.name}."
        )
    # Only a graph shows where a gradient comes from. Merging a merged gradient again changes nothing.
    if tf.is_symbolic_tensor(keys) and keys.op.type == "Ctrlab>EmbeddingSpread" and rows.op is keys.op:
        return tuple(keys.op.inputs)
    merged = _native.library().ops.ctrlab_embedding_lookup_gradient(
        ids=[keys],
        splits=[tf.zeros([0], tf.int64)],
        d_out=[rows],
        times=[],
        T=1,
        table_dims=[table.dim],
        table_of=[0],
        output_of=[0],
        combiners=["rows"],
    )
    return merged.merged_keys[0], merged.counts[0], merged.merged_rows[0]


def step(rule: Rule, updates, learning_rate, step, clip_norm: float | None = None) -> tf.Operation | None:
    """One optimizer step on many tables in one op. If a gradient is not finite, nothing changes.

    Args:
        updates: (table, gradient) pairs.
        learning_rate: float32 scalar. step: int64 scalar, 1 for the first.
        clip_norm: the maximum norm of a table's merged gradient over the keys with a row; None for no clipping.
    """
    return _native.library().ops.ctrlab_embedding_update(
        **_arguments(rule, updates), learning_rate=learning_rate, step=step, numbers=rule.numbers(clip_norm)
    )


def norms(rule: Rule, updates, step) -> tf.Tensor:
    """The sums of squares by which `step` would clip the same gradients. It takes no step and counts nothing.

    If a table is sharded over workers, its squared norm is the sum of the workers' results.

    Args:
        rule, updates, step: as in `step`, which refuses the same arguments.
    Returns:
        float64 [T]: for each table the sum over the keys that have a row, or get one in this step.
    """
    return _native.library().ops.ctrlab_embedding_norms(**_arguments(rule, updates), step=step)


def _arguments(rule: Rule, updates) -> dict[str, list]:
    merged = [merged_gradient(table, gradient) for table, gradient in updates]
    return {
        "tables": [table.resource_handle for table, _ in updates],
        "keys": [keys for keys, _, _ in merged],
        "counts": [counts for _, counts, _ in merged],
        "gradients": [rows for _, _, rows in merged],
        "kind": rule.kind,
        "slot_names": list(rule.slots),
    }


def merged_slices(table: EmbeddingVariable, gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """A gradient of `table.proxy` with each key once; how often it came is left out."""
    keys, _, rows = merged_gradient(table, gradient)
    return tf.IndexedSlices(rows, keys)


def scaled(table: EmbeddingVariable, gradient: tf.IndexedSlices, factor: tf.Tensor) -> tf.IndexedSlices:
    """A gradient of `table.proxy` times a factor; the keys have come as often as before."""
    keys, counts, rows = merged_gradient(table, gradient)
    # Not the spread rows times the factor: `step` would merge those once more, from a row for each occurrence.
    spread = _native.library().ops.ctrlab_embedding_spread(merged_keys=keys, counts=counts, merged_rows=factor * rows)
    return tf.IndexedSlices(spread.rows, spread.keys, gradient.dense_shape)
