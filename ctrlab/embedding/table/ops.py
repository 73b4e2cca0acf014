"""Lookup in embedding variables: many columns from many tables in one op, its gradient, and the step that takes it.

A gradient has to carry how often each key came, because admission and eviction count occurrences. `tf.IndexedSlices` has no place
for it but the indices themselves: so they name each key as often as it came, the sum of its gradients in the first place and
zeros in the others. Nothing then has to be remembered between the gradient and the step: a gradient that is thrown away is not
counted, gradients that are added up (concatenated) add their counts, one that a user made counts each index once, and its norm
is that of the merged gradient, so clipping by norm is right from outside as well. In a graph where nothing lies between the
gradient and the optimizer, the step takes the merged rows and counts as they are and the zeros are never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops.lookup import Ids, Layout, agree, handle_of, ids_and_splits
from ctrlab.ops.sparse_update import Rule

if TYPE_CHECKING:
    from ctrlab.embedding.variable import EmbeddingVariable


def grouped(tables: Sequence[EmbeddingVariable], columns: Sequence[Ids], layout: Layout, training: bool) -> list[tf.Tensor]:
    """All columns in one op, as `ctrlab.ops.lookup` defines it for dense tables; but any id is a key, and none is unknown.

    Args:
        tables: T embedding variables.
        columns: C int64 columns of keys, each a Tensor [B] (one key a row) or a RaggedTensor [B, (L)].
        layout: which table each column reads, how its rows are combined, and in which output they stand.
        training: a key without a row reads its initial value; else 0.
    Returns:
        float32 outputs, [B, width] of pooled columns and [N, width] where each key keeps a row.
    Raises:
        CtrlabError: the columns don't fit the layout, or keys are not int64. InvalidArgumentError: splits or shapes don't agree.
    """
    agree(tables, columns, layout)
    with tf.device("CPU:0"):
        return _native.library().ops.ctrlab_embedding_lookup(
            tables=[table.resource_handle for table in tables],
            proxies=[handle_of(table.proxy.value) for table in tables],
            **ids_and_splits(columns),
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
        splits=inputs[2 * tables + columns :],
        d_out=[tf.convert_to_tensor(d) for d in d_out],
        T=tables,
        table_dims=dims,
        **{name: op.get_attr(name) for name in ("table_of", "output_of", "combiners")},
    )
    slices = []
    for keys, counts, rows, dim in zip(merged.merged_keys, merged.counts, merged.merged_rows, dims):
        spread = _native.library().ops.ctrlab_embedding_spread(merged_keys=keys, counts=counts, merged_rows=rows)
        slices.append(tf.IndexedSlices(spread.rows, spread.keys, tf.constant([0, dim], tf.int64)))
    return [None] * tables + slices + [None] * (2 * columns)


def merged_gradient(table: EmbeddingVariable, gradient: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A gradient of `table.proxy` with each key once.

    Returns:
        keys int64 [u], ascending; how often each came, int64 [u]; the sums of its rows, float32 [u, D].
    Raises:
        CtrlabError: it is not made of rows of D numbers under int64 keys.
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
    # Only in a graph can one see where a gradient comes from; merging twice changes nothing.
    if tf.is_symbolic_tensor(keys) and keys.op.type == "Ctrlab>EmbeddingSpread" and rows.op is keys.op:
        return tuple(keys.op.inputs)
    merged = _native.library().ops.ctrlab_embedding_lookup_gradient(
        ids=[keys],
        splits=[tf.zeros([0], tf.int64)],
        d_out=[rows],
        T=1,
        table_dims=[table.dim],
        table_of=[0],
        output_of=[0],
        combiners=["rows"],
    )
    return merged.merged_keys[0], merged.counts[0], merged.merged_rows[0]


def step(rule: Rule, updates, learning_rate, step, clip_norm: float | None = None) -> tf.Operation | None:
    """One optimizer step on many tables in one op; nothing changes if a gradient is not finite.

    Args:
        updates: (table, gradient) of each.
        learning_rate: float32 scalar. step: int64 scalar, 1 for the first.
        clip_norm: the most that the norm of a table's merged gradient, of the keys that have a row, may be; None for no clipping.
    """
    merged = [merged_gradient(table, gradient) for table, gradient in updates]
    with tf.device("CPU:0"):
        return _native.library().ops.ctrlab_embedding_update(
            tables=[table.resource_handle for table, _ in updates],
            keys=[keys for keys, _, _ in merged],
            counts=[counts for _, counts, _ in merged],
            gradients=[rows for _, _, rows in merged],
            learning_rate=learning_rate,
            step=step,
            numbers=rule.numbers(clip_norm),
            kind=rule.kind,
            slot_names=list(rule.slots),
        )
