"""Parquet by columns: what is ordered, shuffled and batched are row numbers, and the rows follow.

    row numbers --order--> chunks of some thousand --> rows taken from a window of the files --> tensors --> cut into batches

The window holds the stretches of the files of which a row is still wanted, so memory is bounded by the shuffle buffer and the
chunk, not by the files. A whole chunk becomes tensors at once: at 512 rows a batch, what a batch costs decides, not a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tensorflow as tf

from ctrlab.data import faults
from ctrlab.data.reader import Order, Source
from ctrlab.data.tables import conform
from ctrlab.data.text import BORDER, join, pack, plain
from ctrlab.data.tfrecord import list_dtype
from ctrlab.errors import BadData
from ctrlab.features import Categorical, Column, Label, Numeric, NumericList, Schema

CHUNK_ROWS = 16_384
READ_ROWS = 32_768


def batches(source: Source, order: Order, batch_size: int, drop_remainder: bool, finish: Callable) -> tf.data.Dataset:
    """What `finish` makes of the columns by name; see `ctrlab.data.read`."""
    schema = source.schema
    counts = [_open(path, schema).metadata.num_rows for path in source.files]
    for path, rows in zip(source.files, counts):
        if rows == 0:
            raise BadData(f"File {path} is empty: it has no rows.")
    numbers = order(tf.data.Dataset.range(sum(counts))).batch(max(1, CHUNK_ROWS // batch_size) * batch_size)
    chunks = tf.data.Dataset.from_generator(
        lambda: _chunks(source, numbers, sum(counts), order.shard, batch_size),
        output_signature={column.name: _signature(column, source.lists) for column in schema.columns},
    )

    @tf.autograph.experimental.do_not_convert
    def cut(chunk: dict) -> tf.data.Dataset:
        rows = tf.shape(chunk[schema.labels[0].name], tf.int64)[0]
        whole = rows // batch_size
        batch_numbers = tf.data.Dataset.range(whole if drop_remainder else whole + tf.cast(rows % batch_size > 0, tf.int64))

        def batch(number: tf.Tensor) -> tuple:
            start = number * batch_size
            size = batch_size if drop_remainder else tf.minimum(tf.constant(batch_size, tf.int64), rows - start)
            return finish({name: _rows(values, number, start, size) for name, values in chunk.items()})

        return batch_numbers.map(batch, num_parallel_calls=tf.data.AUTOTUNE)

    return chunks.prefetch(1).flat_map(cut)


def _signature(column: Column, lists: str):
    """What `_tensors` makes of a column."""
    match column:
        case Label() | Numeric():
            return tf.TensorSpec([None], tf.float32)
        case Categorical():
            return tf.TensorSpec([None], tf.int64 if column.encoding == "identity" else tf.string)
    if lists == "text":
        return tf.TensorSpec([None], tf.string)
    return tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], list_dtype(column))


def _rows(values, batch: tf.Tensor, start: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor | tf.RaggedTensor:
    """Of a chunk's column the batch with this number: `size` rows from `start` on."""
    if isinstance(values, tuple):
        splits, entries = values
        splits = _rows(splits, batch, start, size + 1)  # [B + 1]
        entries = _rows(entries, batch, splits[0], splits[-1] - splits[0])
        return tf.RaggedTensor.from_row_splits(entries, splits - splits[0], validate=False)
    if values.dtype == tf.string:
        # One empty text and no text at all are packed alike, so only as many as there are are taken.
        texts = tf.raw_ops.StringSplitV2(input=values[batch][None], sep=BORDER, maxsplit=-1).values
        return tf.slice(texts, [tf.constant(0, tf.int64)], [tf.cast(size, tf.int64)])
    return tf.slice(values, [start], [tf.cast(size, tf.int64)])


def _chunks(source: Source, numbers: tf.data.Dataset, total: int, shard: tuple[int, int], size: int) -> Iterator[dict]:
    """The rows of `numbers`, chunk by chunk, `size` of them a batch. A fault is left where `explained` finds it."""
    try:
        window = Window(_stretches(source), lambda rows: rows % total % shard[1] == shard[0])
        in_epoch = len(range(shard[0], total, shard[1]))
        done = 0
        for numbers_of_chunk in numbers.as_numpy_iterator():
            epoch = np.arange(done, done + len(numbers_of_chunk)) // in_epoch
            table = window.take(epoch * total + numbers_of_chunk)
            done += len(table)
            ends = np.append(np.arange(size, len(table), size), len(table))  # of the batches
            yield {column.name: _tensors(table[column.name], column, source.lists, ends) for column in source.schema.columns}
    except BadData as fault:
        faults.blame(source, fault)
        raise


@dataclass
class Stretch:
    """Rows [start, start + len(table)) of the endless stream of epochs, of which `wanted` are still to be taken."""

    start: int
    table: pa.Table
    wanted: int


class Window:
    """Takes rows by number out of a stream of tables, and keeps only those tables of which rows are still wanted.

    Args:
        tables: the stream; row numbers go on from one to the next.
        wanted: says of row numbers, int64 [n], which will ever be asked for, bool [n]. Each is asked for once.
    """

    def __init__(self, tables: Iterator[pa.Table], wanted):
        self._tables, self._wanted = tables, wanted
        self._stretches: list[Stretch] = []
        self._end = 0

    def take(self, rows: np.ndarray) -> pa.Table:
        """The rows with these numbers, int64 [n], in this order."""
        while self._end <= rows.max():
            table = next(self._tables)
            wanted = np.count_nonzero(self._wanted(np.arange(self._end, self._end + len(table))))
            if wanted:
                self._stretches.append(Stretch(self._end, table, wanted))
            self._end += len(table)
        stretch = np.searchsorted([s.start for s in self._stretches], rows, side="right") - 1  # [n]
        places = np.cumsum([0] + [len(s.table) for s in self._stretches[:-1]])  # of each stretch in the joined table
        joined = pa.concat_tables(s.table for s in self._stretches)
        starts = np.array([s.start for s in self._stretches])
        taken = joined.take(pa.array(rows - starts[stretch] + places[stretch]))
        for s, count in zip(self._stretches, np.bincount(stretch, minlength=len(self._stretches))):
            s.wanted -= count
        self._stretches = [s for s in self._stretches if s.wanted]
        return taken


def _stretches(source: Source) -> Iterator[pa.Table]:
    """The files' rows in order, again and again, some thousand at a time."""
    for path in itertools.cycle(source.files):
        file = _open(path, source.schema)
        try:
            for batch in file.iter_batches(READ_ROWS, columns=[column.name for column in source.schema.columns]):
                table = conform(pa.Table.from_batches([batch]), source.schema, str(path))
                table.validate(full=True)  # else bytes that are no UTF-8 would go through
                yield table
        except (OSError, pa.ArrowException) as error:
            raise _damaged(path, error) from None


def _open(path: Path, schema: Schema) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from None
    conform(file.schema_arrow.empty_table(), schema, str(path))
    return file


def _damaged(path: Path, error: Exception) -> BadData:
    return BadData(f"{path} is no whole Parquet file (damaged, cut off, or another format): {str(error).splitlines()[0]}")


def _tensors(values: pa.ChunkedArray, column: Column, lists: str, ends: np.ndarray):
    """A column of a chunk: numbers [n], text packed by batches, or of a list column its row splits, int64 [n + 1], and either.

    Args:
        ends: the row after the last of each batch, int64 [batches].
    """
    array = values.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    match column:
        case Label():
            return _numbers(array)
        case Numeric():
            return _numbers(array.fill_null(column.default))
        case Categorical(encoding="identity"):
            return _numbers(array.fill_null(int(column.default or 0)))
        case Categorical():
            return pack(_filled(array, column.default), ends)
    if lists == "text":
        return pack(_filled(join(array, column.separator), getattr(column, "default", "")), ends)
    lengths, entries = _numbers(array.value_lengths().fill_null(0)), array.flatten()
    if isinstance(column, NumericList):
        default = np.array(column.default.split(column.separator), np.float32)
        lengths, entries = _fill_empty(lengths, _numbers(entries), default)
    else:
        entries = entries if list_dtype(column) == tf.string else _numbers(entries)
    splits = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    if list_dtype(column) == tf.string:
        return splits, pack(entries, splits[ends])
    return splits, entries


def _numbers(array: pa.Array) -> np.ndarray:
    return array.to_numpy(zero_copy_only=False)


def _fill_empty(lengths: np.ndarray, entries: np.ndarray, default: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lists of numbers with `default` in the place of those without any."""
    starts = np.cumsum(lengths) - lengths
    empty = lengths == 0
    filled = np.insert(entries, np.repeat(starts[empty], len(default)), np.tile(default, np.count_nonzero(empty)))
    return np.where(empty, len(default), lengths), filled


def _filled(text: pa.Array, default: str) -> pa.Array:
    """Text with `default` in the place of what is missing or empty."""
    text = text.fill_null("")
    return pc.if_else(pc.equal(plain(text), ""), default, plain(text)) if default else text
