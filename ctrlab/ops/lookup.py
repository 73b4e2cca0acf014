"""Embedding lookup: the rows of many id columns, out of one or more tables, side by side where the model wants them.

    sum, mean   out[b, offset : offset + D] = sum (mean) over the known ids i of row b:  table[i]
    rows        out[n, offset : offset + D] = table[ids[n]], a row for each id

A column's numbers begin where those of the columns before it in the same output end. The stock library looks up one column
after another and concatenates; its gradient is the rows of each id, which the optimizer then has to merge. The fused op reads
each row once, writes it where it belongs, and its gradient comes merged: each id of a table once, with the sum of its rows.

Every implementation takes

    tables: T float32 variables [V, D].
    columns: C int64 id columns, each a Tensor [B] (one id a row) or a RaggedTensor [B, (L)]. The id -1 means "unknown": it
        contributes nothing, and gives zeros where each id has a row of its own. Ids are else in [0, V) of their table.
    layout: which table each column reads, how its ids are combined, and in which output it stands.

and returns float32 outputs: [B, width] of pooled columns, [N, width] where each id keeps a row, with N the number of ids.
Columns that run side by side, a row for each id, must be cut into rows alike. An id out of range is an error.

Source: TensorFlow's embedding_lookup; FBGEMM's table-batched embeddings; DeepRec's fused embedding lookup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab.errors import CtrlabError
from ctrlab.ops import _native

Ids = tf.Tensor | tf.RaggedTensor
COMBINERS = ("rows", "sum", "mean")


@dataclass(frozen=True)
class Layout:
    """One entry a column.

    Attributes:
        table_of: the table it reads.
        combiners: "rows" (a row for each id), "sum" or "mean".
        output_of: the output it stands in; outputs are numbered from 0 and none is empty.
        unknown: the columns whose ids may be -1. Only `stock` asks: it looks up the known ids alone, which costs time.
    Raises:
        CtrlabError: the entries do not fit together.

    >>> Layout((0, 0), ("mean", "mean"), (0, 0)).outputs
    1
    """

    table_of: tuple[int, ...]
    combiners: tuple[str, ...]
    output_of: tuple[int, ...]
    unknown: frozenset[int] = frozenset()

    def __post_init__(self):
        if not len(self.table_of) == len(self.combiners) == len(self.output_of) > 0:
            raise CtrlabError(
                f"A layout must have a column, and one table, combiner and output a column; received {len(self.table_of)}, "
                f"{len(self.combiners)} and {len(self.output_of)}."
            )
        for c, combiner in enumerate(self.combiners):
            if combiner not in COMBINERS:
                raise CtrlabError(f"A combiner must be one of {', '.join(COMBINERS)}; received {combiner!r} in column {c}.")
        if set(self.output_of) != set(range(self.outputs)):
            raise CtrlabError(f"Outputs must be numbered from 0 without a gap; received {sorted(set(self.output_of))}.")
        for m in range(self.outputs):
            if len({self.combiners[c] == "rows" for c in self.columns_of(m)}) > 1:
                raise CtrlabError(f"The columns of output {m} must all be pooled, or all keep a row for each id; they differ.")

    @property
    def outputs(self) -> int:
        return max(self.output_of) + 1

    def columns_of(self, output: int) -> list[int]:
        return [c for c, m in enumerate(self.output_of) if m == output]


def reference(tables: Sequence, columns: Sequence[Ids], layout: Layout) -> list[np.ndarray]:
    """The definition in NumPy, float64.

    Raises:
        CtrlabError: an id is out of range, or the columns do not fit together.

    >>> reference([np.array([[1.0], [2.0]])], [np.array([1, -1, 0])], Layout((0,), ("sum",), (0,)))[0].ravel()
    array([2., 0., 1.])
    """
    tables = [np.asarray(table, np.float64) for table in tables]
    pieces = []
    for (row_of, ids, weights, rows), t in zip(_hits(tables, columns, layout), layout.table_of):
        piece = np.zeros((rows, tables[t].shape[1]))
        np.add.at(piece, row_of, weights[:, None] * tables[t][ids])
        pieces.append(piece)
    return [np.concatenate([pieces[c] for c in layout.columns_of(m)], axis=1) for m in range(layout.outputs)]


def reference_gradient(tables: Sequence, columns: Sequence[Ids], layout: Layout, d_out: Sequence) -> list[tuple]:
    """For each table (ids [u], rows float64 [u, D]): the ids that were looked up, ascending, and the gradient of their rows."""
    dims = [np.asarray(table).shape[1] for table in tables]
    at = [0] * layout.outputs
    parts = [[] for _ in tables]
    for (row_of, ids, weights, _), t, m in zip(_hits(tables, columns, layout), layout.table_of, layout.output_of):
        d = np.asarray(d_out[m], np.float64)[:, at[m] : at[m] + dims[t]]
        at[m] += dims[t]
        parts[t].append((ids, weights[:, None] * d[row_of]))
    merged = []
    for part, dim in zip(parts, dims):
        ids = np.concatenate([i for i, _ in part] or [np.zeros(0, np.int64)])
        rows = np.concatenate([r for _, r in part] or [np.zeros((0, dim))])
        unique, place = np.unique(ids, return_inverse=True)
        sums = np.zeros((len(unique), dim))
        np.add.at(sums, place, rows)
        merged.append((unique, sums))
    return merged


def stock(tables: Sequence[tf.Variable], columns: Sequence[Ids], layout: Layout) -> list[tf.Tensor]:
    """What the library offers: a gather a column, a segment sum or mean a bag, and a concat an output."""
    agree(tables, columns, layout)
    pieces = [
        _stock_column(tables[t], ids, how, c in layout.unknown)
        for c, (ids, t, how) in enumerate(zip(columns, layout.table_of, layout.combiners))
    ]
    return _side_by_side(pieces, columns, layout)


def by_table(tables: Sequence[tf.Variable], columns: Sequence[Ids], layout: Layout) -> list[tf.Tensor]:
    """The best of stock: the pooled columns of one table share a gather and a segment sum, since ops cost more than rows here."""
    agree(tables, columns, layout)
    pieces: list = [None] * len(columns)
    groups: dict[tuple[int, str], list[int]] = {}
    for c, (ids, t, how) in enumerate(zip(columns, layout.table_of, layout.combiners)):
        if how == "rows" or c in layout.unknown:
            pieces[c] = _stock_column(tables[t], ids, how, c in layout.unknown)
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
    """[columns, B, D]: the bags of all columns as those of one long batch."""
    ids, bags, batch = [], [], tf.size(_splits_of(columns[0]), tf.int64) - 1
    for k, column in enumerate(columns):
        ids.append(column.values if _ragged(column) else column)
        row_of = tf.cast(column.value_rowids(), tf.int64) if _ragged(column) else tf.range(batch)
        bags.append(row_of + k * batch)
    segment = tf.math.unsorted_segment_mean if how == "mean" else tf.math.unsorted_segment_sum
    pooled = segment(tf.gather(table, tf.concat(ids, 0)), tf.concat(bags, 0), len(columns) * batch)
    return tf.reshape(pooled, (len(columns), -1, table.shape[1]))


def _side_by_side(pieces: Sequence[tf.Tensor], columns: Sequence[Ids], layout: Layout) -> list[tf.Tensor]:
    """Each output from the pieces of its columns."""
    outputs = []
    for m in range(layout.outputs):
        first, *others = layout.columns_of(m)
        for c in others if layout.combiners[first] == "rows" else []:
            message = f"Lists that run side by side must be of equal length; columns {first} and {c} differ in a row."
            tf.debugging.assert_equal(_splits_of(columns[first]), _splits_of(columns[c]), message)
        outputs.append(tf.concat([pieces[c] for c in (first, *others)], axis=1) if others else pieces[first])
    return outputs


def fused(tables: Sequence[tf.Variable], columns: Sequence[Ids], layout: Layout) -> list[tf.Tensor]:
    """The compiled op. Its gradient is one tf.IndexedSlices a table, merged: ids ascending, each once.

    Raises:
        CtrlabError: columns and layout do not fit together, or ids are not int64. InvalidArgumentError: an id is out of range,
            or shapes do not agree. NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    agree(tables, columns, layout)
    return _native.library().ops.ctrlab_lookup(
        tables=[handle_of(table) for table in tables],
        **ids_and_splits(columns),
        table_rows=[table.shape[0] for table in tables],
        table_dims=[table.shape[1] for table in tables],
        table_of=layout.table_of,
        output_of=layout.output_of,
        combiners=layout.combiners,
        M=layout.outputs,
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


def is_merged(gradient: tf.IndexedSlices) -> bool:
    """Whether `fused` or `merge` made a sparse gradient; only a graph shows that, and merging twice changes nothing."""
    return tf.is_symbolic_tensor(gradient.indices) and gradient.indices.op.type == "Ctrlab>LookupGradient"


def merge(gradient: tf.IndexedSlices, shape: tf.TensorShape) -> tf.IndexedSlices:
    """A sparse gradient with each id once, ascending; one that `fused` made is left as it is.

    Args:
        gradient: rows float32 [n, D], ids [n] in any order; rows of the id -1 are dropped. No `dense_shape` is needed.
        shape: [V, D] of its variable, all of it known.
    """
    if is_merged(gradient):
        return gradient
    rows, *rest = shape
    width = int(np.prod(rest, dtype=np.int64))
    merged = _native.library().ops.ctrlab_lookup_gradient(
        ids=[tf.cast(gradient.indices, tf.int64)],
        splits=[tf.zeros([0], tf.int64)],
        d_out=[tf.reshape(gradient.values, (-1, width))],
        T=1,
        table_rows=[rows],
        table_dims=[width],
        table_of=[0],
        output_of=[0],
        combiners=["rows"],
    )
    rows = tf.reshape(merged.merged_rows[0], (-1, *rest))  # [u, D]
    return tf.IndexedSlices(rows, merged.merged_ids[0], tf.constant(list(shape), tf.int64))


def handle_of(table: tf.Variable) -> tf.Tensor:
    """The variable's handle; gradient tapes and functions are told that it is read."""
    return tf.type_spec_from_value(table).to_tensors(table)[0]


def ids_and_splits(columns: Sequence[Ids]) -> dict[str, list[tf.Tensor]]:
    """Columns as the compiled ops take them. No splits: one id a row, so that a plain column costs nothing to describe."""
    return {
        "ids": [c.values if _ragged(c) else tf.convert_to_tensor(c) for c in columns],
        "splits": [tf.cast(c.row_splits, tf.int64) if _ragged(c) else tf.zeros([0], tf.int64) for c in columns],
    }


def _stock_column(table: tf.Variable, ids: Ids, combiner: str, unknown: bool) -> tf.Tensor:
    if combiner == "rows" or not _ragged(ids):
        ids = ids.values if _ragged(ids) else ids
        if not unknown:
            return tf.gather(table, ids)
        known = tf.where(ids >= 0)  # [n, 1]: looked up alone, so that an unknown id touches no row of the table
        return tf.scatter_nd(known, tf.gather(table, tf.gather_nd(ids, known)), (tf.size(ids), table.shape[1]))
    if unknown:
        ids = tf.ragged.boolean_mask(ids, ids >= 0)
    # Not safe_embedding_lookup_sparse: it looks up row 0 for an empty bag, so the optimizer would move that row.
    rows = tf.gather(table, ids.values)  # [N, D]
    segment = tf.math.unsorted_segment_mean if combiner == "mean" else tf.math.unsorted_segment_sum
    return segment(rows, ids.value_rowids(), ids.nrows())  # [B, D]


def _hits(tables, columns, layout) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """Of each column: for every known id its row of the output, the id, its weight there; and how many rows the output has."""
    agree(tables, columns, layout)
    batch = {int(_splits_of(c).shape[0]) - 1 for c in columns}
    if len(batch) > 1:
        raise CtrlabError(f"All columns must have the same rows; received {sorted(batch)}.")
    hits = []
    for c, (column, t, combiner) in enumerate(zip(columns, layout.table_of, layout.combiners)):
        ids, splits = np.asarray(column.values if _ragged(column) else column), np.asarray(_splits_of(column))
        size = np.asarray(tables[t]).shape[0]
        row_of = np.repeat(np.arange(len(splits) - 1), np.diff(splits))
        bad = np.flatnonzero((ids < -1) | (ids >= size))
        if bad.size:
            raise CtrlabError(
                f"The ids of column {c} must be -1 (unknown) or in [0, {size}); received {ids[bad[0]]} in row {row_of[bad[0]]}."
            )
        for other in layout.columns_of(layout.output_of[c]) if combiner == "rows" else []:
            if not np.array_equal(_splits_of(columns[other]), splits):
                raise CtrlabError(
                    f"Lists that run side by side must be of equal length; columns {other} and {c} differ in a row."
                )
        known = ids >= 0
        counts = np.bincount(row_of[known], minlength=len(splits) - 1)
        weights = 1.0 / counts[row_of[known]] if combiner == "mean" else np.ones(known.sum())
        place, rows = (np.arange(len(ids)), len(ids)) if combiner == "rows" else (row_of, len(splits) - 1)
        hits.append((place[known], ids[known], weights, rows))
    return hits


def agree(tables, columns, layout: Layout) -> None:
    """Refuses columns that the layout is not for, and ids that are not int64."""
    if len(columns) != len(layout.table_of):
        raise CtrlabError(f"There must be as many columns as the layout has; received {len(columns)} for {len(layout.table_of)}.")
    if not 0 <= min(layout.table_of) <= max(layout.table_of) < len(tables):
        raise CtrlabError(f"Columns must read one of the {len(tables)} tables; the layout says {sorted(set(layout.table_of))}.")
    for c, ids in enumerate(columns):
        if ids.dtype not in (tf.int64, np.int64):
            raise CtrlabError(f"Ids must be int64; received {tf.as_dtype(ids.dtype).name} in column {c}.")


def _splits_of(column: Ids):
    if _ragged(column):
        return tf.cast(column.row_splits, tf.int64)
    return tf.range(tf.size(column, tf.int64) + 1)


def _ragged(x) -> bool:
    return isinstance(x, tf.RaggedTensor)
