"""CSV as the original models read it: one row per line, no quotes, no header, lists joined inside their field."""

from __future__ import annotations

import codecs
import functools
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import tensorflow as tf

from ctrlab.data import values
from ctrlab.data.strings import split
from ctrlab.errors import BadData
from ctrlab.schema import Categorical, Column, Label, Numeric, NumericList, Schema, entry_dtype

BLOCK_BYTES = 1 << 24


def decode(lines: tf.Tensor, schema: Schema, unsplit: Callable[[Column], bool]) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """Parses lines, string [B], into columns by name; list columns that are `unsplit` stay text."""
    defaults = [_default(column) for column in schema.columns]
    fields = tf.io.decode_csv(lines, defaults, field_delim=schema.delimiter, use_quote_delim=False)  # each [B]
    columns = zip(schema.columns, fields)
    return {column.name: field if unsplit(column) else _split(column, field) for column, field in columns}


def _default(column: Column) -> tf.Tensor:
    """The value of an empty field; a tensor without elements means that it must not be empty."""
    match column:
        case Label():
            return tf.constant([], tf.float32)
        case Numeric():
            return tf.constant([column.default], tf.float32)
        case Categorical() if column.bits:
            return tf.constant([int(column.default)] if column.default else [], entry_dtype(column))
        case Categorical() | NumericList():
            return tf.constant([column.default], tf.string)
    return tf.constant([""], tf.string)


def _split(column: Column, field: tf.Tensor) -> tf.Tensor | tf.RaggedTensor:
    """Splits text [B] of a list column into entries, ragged [B, (L)]; other columns pass unchanged."""
    if isinstance(column, Label | Numeric | Categorical):
        return field
    if isinstance(column, NumericList):
        parts = tf.strings.split(field, column.separator)  # [B, (L)]
        return parts.with_flat_values(tf.strings.to_number(parts.flat_values, tf.float32))
    parts = split(field, column.separator)
    return parts.with_flat_values(tf.strings.to_number(parts.flat_values, entry_dtype(column))) if column.bits else parts


def check_text(files: Iterable[Path]) -> None:
    """Raises BadData with file and line if bytes are not UTF-8.

    TensorFlow's strings are bytes, so it accepts anything. A check inside the pipeline would take a third of the decoding time.
    """
    for file in files:
        status = file.stat()
        _check_text(file, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _check_text(file: Path, size: int, changed: int) -> None:
    """Checks a file once, and again after it has changed: `size` and `changed` are only cache keys."""
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    with open(file, "rb") as stream:
        while True:
            block = stream.read(BLOCK_BYTES)
            try:
                decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                line += error.object.count(b"\n", 0, error.start)
                value = error.object[error.start]
                raise BadData(f"{file}, line {line}: text must be UTF-8; byte 0x{value:02x} is not ({error.reason}).") from None
            if not block:
                return
            line += block.count(b"\n")


def explain(line: bytes, schema: Schema) -> str | None:
    """Says what is wrong with a line that can't be decoded; None if nothing is found."""
    fields = line.decode().split(schema.delimiter)
    if len(fields) != len(schema.columns):
        return f"a row of {schema.name} has {len(schema.columns)} fields separated by {schema.delimiter!r}; found {len(fields)}."
    if fields == [column.name for column in schema.columns]:
        return "this is a header line; CSV files hold rows only."
    for column, field in zip(schema.columns, fields):
        if problem := _problem(column, field):
            return f"column {column.name!r} {problem}."
    return None


def _problem(column: Column, field: str) -> str | None:
    whole = bool(getattr(column, "bits", None))
    if not whole and not isinstance(column, Label | Numeric | NumericList):
        return None
    required = isinstance(column, Label) or (isinstance(column, Categorical) and not column.default)
    if not field:
        return "must not be empty" if required else None
    for part in field.split(column.separator) if hasattr(column, "separator") else [field]:
        try:
            number = int(part) if whole else np.float32(part)
        except ValueError:
            return f"must be {'a whole number' if whole else 'a number'}; received {part!r}"
        if values.bad(np.asarray(number), column):
            return f"must {values.rule(column)}; received {part!r}"
    return None
