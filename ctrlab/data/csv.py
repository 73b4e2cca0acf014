"""CSV as the original models read it: one row per line, no quotes, no header, lists joined inside their field."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from ctrlab.data import values
from ctrlab.data.strings import split
from ctrlab.errors import BadData
from ctrlab.paths import identity, settled
from ctrlab.schema import Categorical, Column, Label, Numeric, NumericList, Schema, entry_dtype
from ctrlab.schema.frames import UTF_8_MARK, UTF_16

BLOCK_BYTES = 1 << 24
NEWLINE = b"\n"
STRAY = re.compile(rb"\r(?=[^\r\n])")
MARKED_LINE = re.compile(rb"^" + UTF_8_MARK, re.MULTILINE)
HEXADECIMAL = re.compile(rb"0[xX]")
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?(nan|inf|infinity)\s*", re.ASCII | re.IGNORECASE)
WHOLE_NUMBER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)


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


def lines(files: Sequence[Path], schema: Schema) -> tf.data.Dataset:
    """The lines of the files: string []. A byte-order mark at the beginning of a file is no part of its first line.

    Raises:
        BadData: a file is not the text that it must be; see `check_text`.
    """
    marked = [check_text(file, schema) for file in files]
    if not any(marked):
        return tf.data.TextLineDataset([str(file) for file in files])
    parts = []
    for file, mark in zip(files, marked):
        whole = tf.data.TextLineDataset(str(file))
        parts += [whole.take(1).map(_without_mark), whole.skip(1)] if mark else [whole]
    return functools.reduce(tf.data.Dataset.concatenate, parts)


@tf.autograph.experimental.do_not_convert
def _without_mark(line: tf.Tensor) -> tf.Tensor:
    return tf.strings.substr(line, len(UTF_8_MARK), -1)


def check_text(file: Path, schema: Schema) -> bool:
    """Whether a text file begins with a byte-order mark.

    TensorFlow accepts any bytes: it takes a mark for a part of the first word, leaves carriage returns out, keeps quotes, and
    reads 0x10 as 16. A check inside the pipeline would take a third of the decoding time.

    Raises:
        BadData: with file and line: bytes are not UTF-8, a carriage return stands inside a line, a field begins with a quote, a
            line after the first begins with a byte-order mark, or a number is hexadecimal.
    """
    about = file.stat()
    check = _check_once if settled(about) else _check_once.__wrapped__
    numbers = {place: column.name for place, column in enumerate(schema.columns) if entry_dtype(column) == "float32"}
    return check(file, schema.delimiter.encode(), tuple(numbers.items()), identity(about))


@functools.lru_cache(maxsize=256)
def _check_once(file: Path, delimiter: bytes, numbers: tuple[tuple[int, str], ...], _identity: tuple) -> bool:
    """Checks a file once, and again after it has changed."""
    quoted = re.compile(rb'(?:\A|[\n%s])"' % re.escape(delimiter))
    line = 1
    with open(file, "rb") as stream:
        begin = stream.read(len(UTF_8_MARK))
        if begin.startswith(UTF_16):
            raise BadData(f"{file} is UTF-16, and text must be UTF-8: save it as UTF-8, or run `iconv -f UTF-16 -t UTF-8` on it.")
        marked = begin == UTF_8_MARK
        stream.seek(len(begin) if marked else 0)
        while block := stream.read(BLOCK_BYTES) + stream.readline():
            if (found := _fault(block, quoted) or _hexadecimal(block, delimiter, dict(numbers))) is not None:
                at, said = found
                raise BadData(f"{file}, line {line + block.count(NEWLINE, 0, at)}: {said}.")
            line += block.count(NEWLINE)
    return marked


def _fault(block: bytes, quoted: re.Pattern) -> tuple[int, str] | None:
    """The place of a byte in whole lines that is not allowed there, and what is wrong with it; None if there is none."""
    try:
        block.decode()
    except UnicodeDecodeError as error:
        return error.start, f"text must be UTF-8; byte 0x{block[error.start]:02x} is not ({error.reason})"
    if b"\r" in block and (found := STRAY.search(block)):
        return found.start(), "a carriage return stands only at the end of a line; one is inside it: let lines end in a newline"
    if b'"' in block and (found := quoted.search(block)):
        cure = "write the file without quotes (quoting=csv.QUOTE_NONE), or with a header, and convert it with `ctrlab.data.write`"
        return found.end() - 1, f"quotes would be a part of the words, and a field begins with one: {cure}"
    if UTF_8_MARK in block and (found := MARKED_LINE.search(block)):
        cure = r"name the files one by one, or run `sed -i 's/^\xEF\xBB\xBF//'` on it"
        return found.start(), f"a byte-order mark stands only at the beginning of a file; joined files have it inside: {cure}"
    return None


def _hexadecimal(block: bytes, delimiter: bytes, numbers: dict[int, str]) -> tuple[int, str] | None:
    """The place of a hexadecimal number in whole lines, and what is wrong with it; None if there is none.

    Args:
        numbers: {place in a row: name} of the columns of numbers.
    """
    for found in HEXADECIMAL.finditer(block):
        at = found.start()
        column = numbers.get(block.count(delimiter, block.rfind(NEWLINE, 0, at) + 1, at))
        if column is not None:
            return at, f"column {column!r} must be a number of decimal digits; received one that has {found[0].decode()!r} in it"
    return None


def explain(line: bytes, schema: Schema) -> str | None:
    """Says what is wrong with a line that can't be decoded; None if nothing is found."""
    fields = line.decode().split(schema.delimiter)
    if {field.strip() for field in fields} >= {column.name for column in schema.columns}:
        cure = "convert the file, or a list of such files, with `ctrlab.data.write`, which reads headers"
        return f"this is a header line; CSV files hold rows only: {cure}."
    if len(fields) != len(schema.columns):
        return f"a row of {schema.name} has {len(schema.columns)} fields separated by {schema.delimiter!r}; found {len(fields)}."
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
        if not (WHOLE_NUMBER if whole else NUMBER).fullmatch(part):
            return f"must be {'a whole number' if whole else 'a number'}; received {part!r}"
        with np.errstate(over="ignore"):
            number = int(part) if whole else np.float32(part)
        if values.bad(np.asarray(number), column):
            return f"must {values.rule(column)}; received {part!r}"
    return None
