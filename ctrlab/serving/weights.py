"""Writes the weights of a version as a file of records, which native/serving/weights_file.h describes.

Tables are written in parts, so a table may be larger than memory.
"""

from __future__ import annotations

import errno
import secrets
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from ctrlab.embedding.variable import EmbeddingVariable

FORMAT = 1
BEGIN, ROWS, RUN, DENSE, END = range(5)
HEAD = struct.Struct("<iiqq")
PART_BYTES = 4 << 20  # of a record


def write_weights(
    path: Path,
    tables: Sequence[keras.Variable],
    growing: Sequence[tuple[EmbeddingVariable, int]],
    dense: Sequence[np.ndarray],
) -> None:
    """Writes the file. Tables and embedding variables are numbered in one order, tables first.

    Args:
        growing: each with the number of rows that a server keeps in memory; 0: all.
    Raises:
        OSError: the disk refused.
    """
    try:
        with tf.io.TFRecordWriter(str(path)) as file:
            count = 0
            for record in _records(tables, growing, dense):
                file.write(record)
                count += 1
            file.write(_record(END, 0, 0, count))
            file.flush()
    except tf.errors.OpError as refused:
        raise OSError(errno.EIO, f"{path} can't be written: {refused.message}") from None


def _records(tables, growing, dense) -> Iterator[bytes]:
    yield _record(BEGIN, FORMAT, 0, 0)
    for t, table in enumerate(tables):
        rows, dim = table.shape
        step = max(1, PART_BYTES // (4 * dim))
        for first in range(0, rows, step):
            values = table.value[first : first + step].numpy()
            yield _record(RUN, t, first, len(values), values)
    for t, (table, memory_rows) in enumerate(growing, len(tables)):
        yield from _rows(t, table, bool(memory_rows))
    for d, array in enumerate(dense):
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for first in range(0, data.size, PART_BYTES):
            part = data[first : first + PART_BYTES]
            yield _record(DENSE, d, first, part.size, part)


def _rows(t: int, table: EmbeddingVariable, counted: bool) -> Iterator[bytes]:
    consumer = f"export {secrets.token_hex(8)}"
    try:
        for part in table.cut(consumer).parts(max(1, PART_BYTES // (16 + 4 * table.dim))):
            frequencies = [part.frequencies] if counted else []
            yield _record(ROWS, t, 0, len(part.keys), part.keys, *frequencies, part.values)
    finally:
        table.forget(consumer)  # the table would log changes for it


def _record(kind: int, index: int, first: int, count: int, *arrays: np.ndarray) -> bytes:
    return b"".join([HEAD.pack(kind, index, first, count), *(np.ascontiguousarray(array).tobytes() for array in arrays)])
