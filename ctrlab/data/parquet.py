"""Reads Parquet by columns: native/reader decodes chunks of columns and cuts batches from them, without Python.

    in file order:      row groups -----------------------------> blocks of columns --> batches
    shuffled:           row numbers --order--> rows taken from a window of the blocks --^

Only row numbers are shuffled; the rows are then taken in that order. The window holds the blocks that still have unread rows, so
the shuffle buffer and the row groups bound the memory, not the files. A batch of a numeric column without missing values is
not copied if it lies in one block at a multiple of 64 bytes (the alignment of TensorFlow's kernels); otherwise it is a copy.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tensorflow as tf

from ctrlab._native import reader_library
from ctrlab.data import values
from ctrlab.data.arrow import arrow_schema
from ctrlab.data.dealing import Dealing, Pass
from ctrlab.data.outputs import ENCODING, encoding_of
from ctrlab.data.source import Order, Source, no_rows
from ctrlab.data.tables import conform, fits, holds_nothing
from ctrlab.errors import BadData, CtrlabError
from ctrlab.schema import Categorical, Column, Label, Numeric, NumericList, Schema, entry_dtype
from ctrlab.schema.frames import usual

KINDS = {"float32": "float", "int32": "int32", "int64": "int64", "string": "text"}


def batches(source: Source, order: Order, batch_size: int, drop_remainder: bool) -> tf.data.Dataset:
    """See `ctrlab.data.read`."""
    rows, numbers = _rows(source), None
    if order.shuffle:
        numbers = dataclasses.replace(order, start=0)(tf.data.Dataset.range(rows)).batch(batch_size)
    return _dataset(source, order, numbers, batch_size, drop_remainder)


def dealt(source: Source, dealing: Dealing, worker: int) -> tf.data.Dataset:
    """The batches of one of several workers. Each has at most the worker's part of a batch; the last ones may have no rows.

    Raises:
        BadData: a file is empty, not a complete Parquet file, or lacks a column. CtrlabError: the files do not have as many rows
            as are dealt out.
    """
    if (rows := _rows(source)) != dealing.rows:
        raise CtrlabError(f"The rows that are dealt out are those of the files, {rows:,}; received {dealing.rows:,}.")
    part, nothing = dealing.part(worker), _nothing(source)

    def of_pass(at: Pass, done: int) -> tf.data.Dataset:
        own = len(dealing.rows_of(at, worker))
        # The rows of others are left out as those of steps that are done: they come first in the order, and nobody decodes them.
        order = Order(0, None, 1, (0, 1), rows - own + min(done * part, own))
        numbers = dealing.others(at, worker).concatenate(dealing.order(at, worker).rebatch(part))
        missing = dealing.steps_of(at) - max(done, -(-own // part))
        return _dataset(source, order, numbers, part, False).concatenate(nothing.repeat(missing))

    first, done = dealing.start
    ends = 2**62 if dealing.epochs == -1 else dealing.epochs
    later = tf.data.Dataset.range(first.epoch + 1, ends).flat_map(
        tf.autograph.experimental.do_not_convert(lambda epoch: of_pass(Pass(epoch, first.segment, dealing.workers), 0))
    )
    return of_pass(first, done).concatenate(later) if first.epoch < ends else later


def _rows(source: Source) -> int:
    """The total number of rows of the files; opens each of them."""
    rows = sum(_open(path, source.schema).metadata.num_rows for path in source.files)
    if not rows:
        raise no_rows(source.files)
    return rows


def _dataset(source: Source, order: Order, numbers: tf.data.Dataset | None, batch_size: int, drop_remainder: bool):
    """The rows with these `numbers`, int64 [<= batch_size] per batch; None: all rows in the files' order."""
    schema, structure = source.schema, _structure(source, batch_size if drop_remainder else None)
    columns = [*sorted(schema.features, key=lambda column: column.name), *schema.labels]  # in tf.nest's order
    forms = ["joined" if source.unsplit(c) else "list" if hasattr(c, "separator") else "one" for c in columns]
    flat = [tf.TensorSpec([], tf.variant) if isinstance(s, tf.RaggedTensorSpec) else s for s in tf.nest.flatten(structure)]
    variant = reader_library().ctrlab_parquet_dataset(
        order=[] if numbers is None else [tf.data.experimental.to_variant(numbers)],
        files=[str(path) for path in source.files],
        columns=[column.name for column in columns],
        kinds=[KINDS[entry_dtype(column)] for column in columns],
        forms=forms,
        fallbacks=[_fallback(column) for column in columns],
        separators=[getattr(column, "separator", "") for column in columns],
        required=[_required(column) for column in columns],
        rules=[_rule(column) for column in columns],
        musts=[values.rule(column) for column in columns],
        labels=len(schema.labels),
        batch_size=batch_size,
        drop_remainder=drop_remainder,
        shard_index=order.shard[0],
        shard_count=order.shard[1],
        epochs=order.epochs,
        start=order.start,
        output_types=[spec.dtype for spec in flat],
        output_shapes=[spec.shape for spec in flat],
    )
    # With tf.data's autotuning, a process that leaves a reader open waits up to a minute for each one to end.
    options = tf.data.Options()
    options.autotune.enabled = False
    return tf.data.experimental.from_variant(variant, structure).with_options(options)


def _structure(source: Source, rows: int | None) -> tuple[dict[str, tf.TypeSpec], tf.TensorSpec]:
    features = {column.name: _spec(column, source, rows) for column in source.schema.features}
    return features, tf.TensorSpec([rows, len(source.schema.labels)], tf.float32)


def _nothing(source: Source) -> tf.data.Dataset:
    """One batch without rows."""

    def empty(spec: tf.TypeSpec):
        if isinstance(spec, tf.RaggedTensorSpec):
            return tf.RaggedTensor.from_row_splits(tf.zeros([0], spec.dtype), tf.zeros([1], tf.int64))
        return tf.zeros([0, *spec.shape[1:]], spec.dtype)

    features, labels = _structure(source, None)
    return tf.data.Dataset.from_tensors(({name: empty(spec) for name, spec in features.items()}, empty(labels)))


def _spec(column: Column, source: Source, rows: int | None) -> tf.TypeSpec:
    if source.unsplit(column):
        return tf.TensorSpec([rows], tf.string)
    if hasattr(column, "separator"):
        return tf.RaggedTensorSpec([rows, None], entry_dtype(column), row_splits_dtype=tf.int64)
    return tf.TensorSpec([rows], entry_dtype(column))


def _fallback(column: Column) -> str:
    """The replacement for a missing value: a number or text."""
    match column:
        case Numeric():
            return repr(float(column.default))
        case Categorical() | NumericList():
            return column.default
    return ""


def _required(column: Column) -> bool:
    return isinstance(column, Label) or (isinstance(column, Categorical) and bool(column.bits) and not column.default)


def _rule(column: Column) -> str:
    match column:
        case Label():
            return "share" if column.soft else "binary"
        case Numeric() | NumericList():
            return "finite"
    return "any"


def _open(path: Path, schema: Schema) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        why = str(error).splitlines()[0]
        raise BadData(f"{path} is no whole Parquet file (damaged, cut off, or another format): {why}") from None
    require_readable(file, schema, path)
    return file


def require_readable(file: pq.ParquetFile, schema: Schema, path: Path) -> None:
    """Raises BadData if a file lacks a column of the schema, has it in another type, holds ids that were made for other tables,
    or, as far as its statistics tell, has an id outside its table. The rows are checked when they are read.
    """
    conform(_types(file, schema), schema, str(path))
    wanted, found = encoding_of(schema), file.schema_arrow.metadata or {}
    if wanted and found.get(ENCODING, wanted[ENCODING]) != wanted[ENCODING]:
        raise BadData(f"{path} was encoded for other tables than those of {schema.name}; encode it for this schema again.")
    _check_ids(file, schema, path)


def _types(file: pq.ParquetFile, schema: Schema) -> pa.Table:
    """The file's columns without rows. One of another type than the schema's has the type of nothing if the file has no value of
    it.
    """
    empty = file.schema_arrow.empty_table()
    for field in arrow_schema(schema):
        places = empty.schema.get_all_field_indices(field.name)
        if len(places) == 1 and file.metadata.num_rows and not fits(usual(empty[places[0]]).type, field.type):
            rows = (usual(pa.chunked_array([batch[0]])) for batch in file.iter_batches(columns=[field.name]))
            if all(holds_nothing(values, field.type) for values in rows):
                empty = empty.set_column(places[0], field.name, pa.nulls(0))
    return empty


def _check_ids(file: pq.ParquetFile, schema: Schema, path: Path) -> None:
    """Raises BadData for an id outside its table, as far as the file's statistics tell; else the model's check finds it."""
    footer, before = file.metadata, 0
    leaves = [footer.schema.column(i).path for i in range(footer.num_columns)]
    ids = {c: i for c in schema.id_columns if c.bits for i, leaf in enumerate(leaves) if (leaf + ".").startswith(c.name + ".")}
    for g in range(footer.num_row_groups if ids else 0):
        group = footer.row_group(g)
        for column, i in ids.items():
            known = group.column(i).statistics
            if known and known.has_min_max and not isinstance(known.min, bytes):  # as they are of halves
                if not values.bad(np.array([known.min, known.max]), column).any():
                    continue
                found = usual(file.read_row_group(g, [column.name])[column.name]).combine_chunks()
                nested = pa.types.is_nested(found.type)
                entries, rows = (found.flatten(), pc.list_parent_indices(found)) if nested else (found, None)
                at = values.first_bad(entries.fill_null(0).to_numpy(zero_copy_only=False), column)
                row = before + (at if rows is None else rows[at].as_py())
                where = f"row {row}, counted from 0, has {entries[at]}"
                raise BadData(f"{path}: column {column.name!r} must {values.rule(column)}; {where}.")
        before += group.num_rows
