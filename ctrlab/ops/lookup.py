"""Embedding lookup: gathers the rows of many id columns from one or more tables, and places them side by side in the outputs.

    sum, mean   out[b, offset : offset + D] = sum (mean) over the known ids i of row b:  table[i]
    rows        out[n, offset : offset + D] = table[ids[n]], one row per id

A column's offset is the total width of the columns before it in the same output. The baseline looks up the columns one by one and
concatenates them; its gradient has one row per id occurrence, which the optimizer must merge. The fused op reads each row once
and writes it to its final place. Its gradient is merged: each id of a table once, with the sum of its rows.

Every implementation takes

    tables: T float32 variables [V, D].
    columns: C int64 id columns, each a Tensor [B] (one id per example) or a RaggedTensor [B, (L)]. The id -1 means "unknown": it
        contributes nothing, and gives a zero row under "rows". All other ids are in [0, V) of their table.
    layout: for each column: its table, its combiner and its output.

and returns float32 outputs: [B, width] for pooled columns, [N, width] for "rows", with N the number of ids. Columns under "rows"
in one output must have the same lengths in every example. An id out of range is an error.

Source: TensorFlow's embedding_lookup; FBGEMM's table-batched embeddings; DeepRec's fused embedding lookup.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab import _native, devices
from ctrlab.ops.op import Op
from ctrlab.ops.references import lookup as definition
from ctrlab.ops.references.lookup import Layout, agree

__all__ = ["OP", "Layout", "baseline", "best_stock", "fused"]
Ids = tf.Tensor | tf.RaggedTensor


def baseline(tables: Sequence[tf.Variable], columns: Sequence[Ids], layout: Layout) -> list[tf.Tensor]:
    """Stock TensorFlow: a gather per column, a segment sum or mean per bag, and a concat per output."""
    agree(tables, columns, layout)
    pieces = [
        _column(tables[t], ids, how, c in layout.unknown)
        for c, (ids, t, how) in enumerate(zip(columns, layout.table_of, layout.combiners))
    ]
    return _side_by_side(pieces, columns, layout)


def best_stock(tables: Sequence[tf.Variable], columns: Sequence[Ids], layout: Layout) -> list[tf.Tensor]:
    """The pooled columns of one table share a gather and a segment sum, because the number of ops costs more than the rows."""
    agree(tables, columns, layout)
    pieces: list = [None] * len(columns)
    groups: dict[tuple[int, str], list[int]] = {}
    for c, (ids, t, how) in enumerate(zip(columns, layout.table_of, layout.combiners)):
        if how == "rows" or c in layout.unknown:
            pieces[c] = _column(tables[t], ids, how, c in layout.unknown)
        else:
            groups.setdefault((t, how), []).append(c)
    for (t, how), members in groups.items():
        if all(not _ragged(columns[c]) for c in members):
            rows = tf.gather(tables[t], tf.stack([columns[c] for c in members]))  # [columns, B, D]
        else:
            rows = _pooled_together(tables[t], [columns[c] for c in members], how)
        for c, piece in zip(members, tf.unstack(rows, len(members))):
            pieces[c] = piece
    return _side_by_side(pieces, columns, layout)


def _pooled_together(table: tf.Variable, columns: Sequence[Ids], how: str) -> tf.Tensor:
    """[columns, B, D]: the bags of all columns, pooled as one long batch."""
    ids, bags, batch = [], [], tf.size(_splits_of(columns[0]), tf.int64) - 1
    for k, column in enumerate(columns):
        ids.append(column.values if _ragged(column) else column)
        row_of = tf.cast(column.value_rowids(), tf.int64) if _ragged(column) else tf.range(batch)
        bags.append(row_of + k * batch)
    segment = tf.math.unsorted_segment_mean if how == "mean" else tf.math.unsorted_segment_sum
    pooled = segment(tf.gather(table, tf.concat(ids, 0)), tf.concat(bags, 0), len(columns) * batch)
    return tf.reshape(pooled, (len(columns), -1, table.shape[1]))


def _side_by_side(pieces: Sequence[tf.Tensor], columns: Sequence[Ids], layout: Layout) -> list[tf.Tensor]:
    """Builds each output from the parts of its columns."""
    outputs = []
    for m in range(layout.outputs):
        first, *others = layout.columns_of(m)
        for c in others if layout.combiners[first] == "rows" else []:
            message = f"Lists that run side by side must be of equal length; columns {first} and {c} differ in a row."
            tf.debugging.assert_equal(_splits_of(columns[first]), _splits_of(columns[c]), message)
        outputs.append(tf.concat([pieces[c] for c in (first, *others)], axis=1) if others else pieces[first])
    return outputs


def fused(tables: Sequence[tf.Variable], columns: Sequence[Ids], layout: Layout) -> list[tf.Tensor]:
    """The compiled op. Its gradient is one merged tf.IndexedSlices per table: ids ascending, each once.

    Raises:
        CtrlabError: columns and layout do not fit together, ids are not int64, or a table is on a GPU. InvalidArgumentError: an
            id is out of range, or shapes do not agree. NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    agree(tables, columns, layout)
    return _native.library().ops.ctrlab_lookup(
        tables=[handle_of(table) for table in tables],
        **ids_and_splits(columns),
        table_rows=[table.shape[0] for table in tables],
        **_attributes(tables, layout),
    )


@tf.RegisterGradient("Ctrlab>Lookup")
def _fused_gradient(op: tf.Operation, *d_out: tf.Tensor) -> list:
    tables, columns = op.get_attr("T"), op.get_attr("C")
    inputs = list(op.inputs)
    names = ("table_rows", "table_dims", "table_of", "output_of", "combiners")
    merged = _native.library().ops.ctrlab_lookup_gradient(
        ids=inputs[tables : tables + columns],
        splits=inputs[tables + columns :],
        d_out=[tf.convert_to_tensor(d) for d in d_out],
        T=tables,
        **{name: op.get_attr(name) for name in names},
    )
    shapes = zip(op.get_attr("table_rows"), op.get_attr("table_dims"))
    slices = [
        tf.IndexedSlices(rows, ids, tf.constant(shape, tf.int64))
        for ids, rows, shape in zip(merged.merged_ids, merged.merged_rows, shapes)
    ]
    return slices + [None] * (2 * columns)


def in_rows(rows: Sequence[tf.Tensor], columns: Sequence[Ids], layout: Layout) -> list[tf.Tensor]:
    """Like `fused`, but reads tensors instead of variables: rows that were fetched for one step, float32 [u, D] each. Its
    gradient is dense.

    Raises:
        As `fused`.
    """
    agree(rows, columns, layout)
    return _native.library().ops.ctrlab_rows_lookup(rows=rows, **ids_and_splits(columns), **_attributes(rows, layout))


@tf.RegisterGradient("Ctrlab>RowsLookup")
def _in_rows_gradient(op: tf.Operation, *d_out: tf.Tensor) -> list:
    tables, columns = op.get_attr("T"), op.get_attr("C")
    inputs = list(op.inputs)
    d_rows = _native.library().ops.ctrlab_rows_lookup_gradient(
        rows=inputs[:tables],
        ids=inputs[tables : tables + columns],
        splits=inputs[tables + columns :],
        d_out=[tf.convert_to_tensor(d) for d in d_out],
        **{name: op.get_attr(name) for name in ("table_dims", "table_of", "output_of", "combiners")},
    )
    return [*d_rows, *[None] * (2 * columns)]


def _attributes(tables: Sequence[tf.Variable | tf.Tensor], layout: Layout) -> dict:
    return {
        "table_dims": [table.shape[1] for table in tables],
        "table_of": layout.table_of,
        "output_of": layout.output_of,
        "combiners": layout.combiners,
        "M": layout.outputs,
    }


def handle_of(table: tf.Variable | tf.Tensor) -> tf.Tensor:
    """The variable's handle. It also tells gradient tapes and functions that the variable is read.

    Args:
        table: a variable; in a graph without variables (`ctrlab.serving.graph`), a handle that `tf.raw_ops.ReadVariableOp` reads.
    Raises:
        CtrlabError: the variable is on a GPU.
    """
    if isinstance(table, tf.Tensor):
        return table.op.inputs[0]
    devices.require_ours(table)
    return tf.type_spec_from_value(table).to_tensors(table)[0]


def flat_ids(column: Ids) -> tf.Tensor:
    """All ids of a column, int64 [n]."""
    return column.flat_values if _ragged(column) else column


def ids_and_splits(columns: Sequence[Ids]) -> dict[str, list[tf.Tensor]]:
    """Columns in the form of the compiled ops. A column with one id per example has no splits: it costs nothing to describe."""
    return {
        "ids": [c.values if _ragged(c) else tf.convert_to_tensor(c) for c in columns],
        "splits": [tf.cast(c.row_splits, tf.int64) if _ragged(c) else tf.zeros([0], tf.int64) for c in columns],
    }


def _column(table: tf.Variable, ids: Ids, combiner: str, unknown: bool) -> tf.Tensor:
    if combiner == "rows" or not _ragged(ids):
        ids = ids.values if _ragged(ids) else ids
        if not unknown:
            return tf.gather(table, ids)
        known = tf.where(ids >= 0)  # [n, 1]: only known ids are looked up, so that an unknown id touches no row
        return tf.scatter_nd(known, tf.gather(table, tf.gather_nd(ids, known)), (tf.size(ids), table.shape[1]))
    if unknown:
        ids = tf.ragged.boolean_mask(ids, ids >= 0)
    # Not safe_embedding_lookup_sparse: it looks up row 0 for an empty bag, and the optimizer would then change that row.
    rows = tf.gather(table, ids.values)  # [N, D]
    segment = tf.math.unsorted_segment_mean if combiner == "mean" else tf.math.unsorted_segment_sum
    return segment(rows, ids.value_rowids(), ids.nrows())  # [B, D]


def _splits_of(column: Ids) -> tf.Tensor:
    return tf.cast(column.row_splits, tf.int64) if _ragged(column) else tf.range(tf.size(column, tf.int64) + 1)


def _ragged(x) -> bool:
    return isinstance(x, tf.RaggedTensor)


OP = Op("lookup", rung="lookup", part="embedding", definition=definition, baseline=baseline, best_stock=best_stock, fused=fused)
