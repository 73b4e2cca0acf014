"""Writes tables to files of any of the four formats: streaming and atomic."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.data.outputs import ParquetFile, Replacement, clear_errors
from ctrlab.data.source import FORMATS, format_of, require_schema
from ctrlab.data.tables import conform
from ctrlab.data.text import join, plain
from ctrlab.errors import BadData, choose
from ctrlab.schema import Column, Schema, frames
from ctrlab.schema.frames import UTF_8_MARK

SLICE_ROWS = 65_536
BYTE_ORDER = UTF_8_MARK.decode()


def write(
    tables,
    schema: Schema,
    path: str | os.PathLike,
    format: str | None = None,
    progress: bool = True,
    total: int | None = None,
) -> int:
    """Writes rows to one file, which appears under its name when it is complete. Returns the number of rows.

    Args:
        tables: one table, as `ctrlab.data.table` takes it (a pandas DataFrame, an Arrow table, a path, ...), or several in a list
            or an iterator, with the columns of `schema`. Others are left out. Types are cast if possible; whole numbers in a
            column of words become their text.
        format: "csv", "tfrecord", "tfrecord.gz" or "parquet"; default: from the path's suffix.
        progress: show the rows written on a terminal; `total` is the expected number, if known.
    Raises:
        BadData: a table lacks a column, a label is missing or not 0 or 1 (in [0, 1] where it is soft), a number is NaN or
            infinite, or a value contains a separator of the format.
        CtrlabError: the file can't be written (no space, no permission). BadSchema: `schema` is not a schema.

    >>> write(pandas.read_csv("clicks.csv"), schema, "train.parquet")     # doctest: +SKIP
    """
    require_schema(schema)
    path = Path(path)
    make = WRITERS[choose("format", format or format_of(path), FORMATS)]
    slices, rows = (part for table in frames.tables(tables, schema) for part in _in_slices(table)), 0
    with clear_errors(path), make(path, schema) as file:
        for table in counted(slices, f"Write {path.name}", progress, total):
            file.write(conform(table, schema, f"Table for {path.name}", before=rows))
            rows += len(table)
        file.keep()
    return rows


def _in_slices(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, len(table), SLICE_ROWS):
        yield table.slice(start, SLICE_ROWS)


def counted(tables: Iterable[pa.Table], what: str, progress: bool, total: int | None = None) -> Iterator[pa.Table]:
    """Passes tables through and shows a bar of their rows (not without a terminal)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, force_jupyter=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("rows"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not (progress and console.file.isatty())) as bar:
        task = bar.add_task(what, total=total)
        for table in tables:
            yield table
            bar.advance(task, len(table))


class CsvFile(Replacement):
    """Lines without quotes and header; an empty field is a missing value; lists are joined by their separator."""

    def __init__(self, path: Path, schema: Schema):
        super().__init__(path)
        self._schema = schema

    def write(self, table: pa.Table) -> None:
        if not len(table):
            return
        fields = [self._field(table[column.name].combine_chunks(), column) for column in self._schema.columns]
        lines = pc.binary_join_element_wise(*fields, self._schema.delimiter)
        text = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
        self.file.write(text.buffers()[2])
        self.file.write(b"\n")

    def _field(self, values: pa.Array, column: Column) -> pa.Array:
        words = words_of(values)
        if pa.types.is_string(words.type):
            _refuse(words, column, self._schema.delimiter)
        if pa.types.is_list(values.type):
            return join(values, column.separator)
        return plain(values).cast(pa.string()).fill_null("")


def words_of(values: pa.Array) -> pa.Array:
    """The distinct words of dictionary-encoded text, the entries of lists, or the values of any other column."""
    if pa.types.is_list(values.type):
        values = values.flatten()
    return values.dictionary.take(values.indices.unique().drop_null()) if pa.types.is_dictionary(values.type) else values


def _refuse(words: pa.Array, column: Column, delimiter: str) -> None:
    for sign in (delimiter, "\n", "\r"):
        found = words.filter(pc.match_substring(words, sign))
        if len(found):
            raise BadData(f"In CSV, column {column.name!r} can't hold {sign!r}; found {found[0].as_py()!r}.")
    found = words.filter(pc.match_substring_regex(words, f'^["{BYTE_ORDER}]'))
    if len(found):
        raise BadData(
            f"In CSV, a word of column {column.name!r} can't begin with a quote or a byte-order mark, which readers leave out; "
            f"found {found[0].as_py()!r}: write another format."
        )


class TFRecordFile(Replacement):
    """One tf.train.Example per row; a missing value is an absent feature."""

    compression = ""

    def __init__(self, path: Path, schema: Schema):
        super().__init__(path)
        self._schema = schema

    def __enter__(self) -> TFRecordFile:
        import tensorflow as tf

        super().__enter__()
        self._records = tf.io.TFRecordWriter(self.file.name, tf.io.TFRecordOptions(self.compression))
        return self

    def __exit__(self, *error) -> None:
        with suppress(Exception):  # a file that is only closed here is discarded
            self._records.close()
        super().__exit__(*error)

    def write(self, table: pa.Table) -> None:
        from ctrlab.data.examples import examples

        with _as_os_errors():
            for example in examples(table, self._schema):
                self._records.write(example)

    def keep(self) -> None:
        with _as_os_errors():
            self._records.close()
        super().keep()


class GzipTFRecordFile(TFRecordFile):
    """A gzip-compressed TFRecord file."""

    compression = "GZIP"


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Turns TensorFlow's own errors, such as that for a full disk, into OSError."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise OSError(errno.ENOSPC, error.message) from None
    except tf.errors.OpError as error:
        raise OSError(error.message) from None


WRITERS = {"csv": CsvFile, "tfrecord": TFRecordFile, "tfrecord.gz": GzipTFRecordFile, "parquet": ParquetFile}
