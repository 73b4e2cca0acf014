"""Parses delimited text into typed columns in blocks. Arrow parses whole columns; only faulty rows are examined singly."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ctrlab.data.arrow import arrow_schema, arrow_type
from ctrlab.data.raw.intake import Faults, Intake
from ctrlab.data.raw.lines import Block
from ctrlab.schema import Categorical, Column, IdColumn, Label, MultiHot, Numeric, NumericList, Schema
from ctrlab.schema import Sequence as SequenceColumn

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
WHOLE_NUMBER = r"^-?\d{1,18}$"


def delimited(
    sources: Sequence[Path],
    intake: Intake,
    schema: Schema,
    *,
    names: Sequence[str] | None = None,
    prepare: Callable[[pa.Table, Text], pa.Table] = lambda text, _: text,
) -> Iterator[pa.Table]:
    """The rows of delimited files, as typed tables.

    Args:
        sources: the files, read one after another. A first line with the column names, in any order, is a header.
        names: the raw columns in file order; default: the schema's own.
        prepare: converts raw text columns to the schema's, if they differ.
    """
    names = list(names or (c.name for c in schema.columns))
    parse = functools.partial(_parsed, schema=schema, prepare=prepare)
    yield from intake.parsed(parse, _without_headers(sources, intake, names, schema.delimiter))


def _without_headers(sources: Sequence[Path], intake: Intake, names: list[str], delimiter: str) -> Iterator[tuple]:
    """The blocks of all files, each with the order of its columns."""
    for source in sources:
        order = names
        for block in intake.blocks(source):
            if block.first == 1 and (header := _header(block, names, delimiter)):
                order, block = header, block.after(1)
            yield block, order


def _parsed(block_in_order: tuple[Block, Sequence[str]], schema: Schema, prepare: Callable) -> tuple[pa.Table, Faults]:
    block, order = block_in_order
    faults = Faults(block)
    text = Text(block, order, schema.delimiter, faults)
    text.table = prepare(text.table, text)
    return text.typed(schema), faults


def _header(block: Block, names: list[str], delimiter: str) -> list[str] | None:
    fields = [field.strip() for field in block.line(0).decode("utf-8", "replace").split(delimiter)]
    return fields if sorted(fields) == sorted(names) else None


class Text:
    """The fields of a block's well-formed rows, as text.

    Attributes:
        table: string columns; an empty field is null.
        rows: the position of each table row in the block, int64 [rows].
    """

    def __init__(self, block: Block, names: Sequence[str], delimiter: str, faults: Faults, reported: Block | None = None):
        self.faults, self._reported = faults, reported
        self.rows = self._well_formed(block, len(names), delimiter)
        data = block.data if len(self.rows) == len(block) else b"".join(block.line(i) + b"\n" for i in self.rows)
        self.table = _split(data, names, delimiter)

    def _well_formed(self, block: Block, fields: int, delimiter: str) -> np.ndarray:
        """The rows that are UTF-8, on one line, and have the right number of fields; int64 [rows]."""
        symbols = np.frombuffer(block.data, np.uint8)
        at = np.searchsorted(np.flatnonzero(symbols == ord(delimiter)), block.ends)
        have = np.diff(at, prepend=0) + 1
        wrong = np.flatnonzero(have != fields)
        self.reject(wrong, "wrong number of columns", (f"expected {fields}, got {have[i]}" for i in wrong))
        good = have == fields
        if b"\r" in block.data:
            stray = np.array([i for i in range(len(block)) if b"\r" in block.line(i)], int)
            self.reject(stray, "a carriage return inside the line", ("expected one only before a newline" for _ in stray))
            good[stray] = False
        try:
            block.data.decode()
        except UnicodeDecodeError:
            broken = [(i, error) for i in range(len(block)) if (error := _not_utf8(block.line(i)))]
            places = np.array([i for i, _ in broken], int)
            self.reject(places, "not UTF-8", (f"byte 0x{e.object[e.start]:02x} at {e.start}" for _, e in broken))
            good[places] = False
        return np.flatnonzero(good)

    def reject(self, rows: np.ndarray, rule: str, details) -> None:
        """Rejects rows by their positions in the block."""
        self.faults.reject(rows, rule, details, self._reported)

    def reject_where(self, bad: pa.Array | np.ndarray, rule: str, detail: Callable[[int], str]) -> None:
        """Rejects the table rows where the mask `bad` is true; `detail` says what was received in a table row."""
        mask = np.asarray(bad) if isinstance(bad, np.ndarray) else pc.fill_null(bad, False).to_numpy(zero_copy_only=False)
        places = np.flatnonzero(mask)
        self.reject(self.rows[places], rule, map(detail, places.tolist()))

    def typed(self, schema: Schema) -> pa.Table:
        """The schema's columns in its order and types; rows that violate a rule are rejected and left out."""
        arrays = [self._column(column) for column in schema.columns]
        table = pa.Table.from_arrays(arrays, schema=arrow_schema(schema))
        good = self.faults.good[self.rows]
        return table if good.all() else table.filter(pa.array(good))

    def _column(self, column: Column) -> pa.Array:
        text = self.table[column.name].combine_chunks()
        match column:
            case Label():
                return self._label(column, text)
            case Numeric():
                return self._numbers(text, column.name, pa.float32(), NUMBER)
            case NumericList():
                return self._list(column, pc.fill_null(text, column.default), pa.float32())
            case Categorical() if column.encoding == "identity":
                return self._identity(column, text)
            case Categorical():
                return text.dictionary_encode()
            case MultiHot() | SequenceColumn():
                return self._list(column, text, arrow_type(column).value_type)
        raise TypeError(f"No raw form of a column of the kind {type(column).__name__} is known.")

    def _label(self, column: Column, text: pa.Array) -> pa.Array:
        """1.0 or 0.0. An empty label is a fault too, because a row without a label teaches nothing."""
        numbers = self._numbers(text, column.name, pa.float32(), NUMBER)
        wrong = pc.invert(pc.is_in(numbers, pa.array([0, 1], pa.float32())))
        self.reject_where(wrong, f"{column.name} is not 0 or 1", lambda i: f"got {text[i].as_py() or ''!r}")
        return numbers

    def _identity(self, column: IdColumn, text: pa.Array) -> pa.Array:
        text = pc.fill_null(text, column.default)
        ids = self._numbers(text, column.name, pa.int64(), WHOLE_NUMBER)
        outside = pc.fill_null(pc.or_(pc.less(ids, 0), pc.greater_equal(ids, column.buckets)), True)
        rule = f"{column.name} is not in [0, {column.buckets})"
        self.reject_where(outside, rule, lambda i: f"got {text[i].as_py()!r}")
        return pc.if_else(outside, pa.scalar(0, pa.int64()), ids)

    def _numbers(self, text: pa.Array, name: str, kind: pa.DataType, pattern: str) -> pa.Array:
        """Parses text as finite numbers, null for null; other rows are rejected."""
        numbers, bad = _cast(text, kind, pattern)
        if bad is not None:
            self.reject_where(bad, f"{name} is not a number", lambda i: f"got {text[i].as_py()!r}")
        return numbers

    def _list(self, column, text: pa.Array, kind: pa.DataType) -> pa.Array:
        """Parses text as lists; an empty field is an empty list, and no item may be empty."""
        lists = pc.split_pattern(text, column.separator)
        lists = pc.fill_null(lists, pa.scalar([], lists.type))
        self._reject_items(lists, pc.equal(lists.flatten(), ""), f"{column.name} has an empty item", text)
        if kind == pa.string():
            return lists
        numbers, bad = _cast(lists.flatten(), kind, NUMBER if kind == pa.float32() else WHOLE_NUMBER)
        if bad is not None:
            self._reject_items(lists, bad, f"{column.name} has an item that is not a number", text)
        return pa.ListArray.from_arrays(_offsets(lists), numbers)

    def _reject_items(self, lists: pa.Array, bad: pa.Array, rule: str, text: pa.Array) -> None:
        """Rejects rows whose lists have an item where `bad` is true."""
        if pc.any(bad).as_py():
            rows = pc.list_parent_indices(lists).to_numpy()[bad.to_numpy(zero_copy_only=False)]
            wrong = np.bincount(rows, minlength=len(lists)) > 0
            self.reject_where(wrong, rule, lambda i: f"got {text[i].as_py()!r}")


def _split(data: bytes, names: Sequence[str], delimiter: str) -> pa.Table:
    if not data:
        return pa.table({name: pa.array([], pa.string()) for name in names})
    return pa.csv.read_csv(
        io.BytesIO(data),
        read_options=pa.csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(data) + 1),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, quote_char=False, double_quote=False, ignore_empty_lines=False),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )


def _cast(text: pa.Array, kind: pa.DataType, pattern: str) -> tuple[pa.Array, pa.Array | None]:
    """The numbers, and a mask of texts that are not numbers (None if all are)."""
    try:
        numbers = pc.cast(text, kind)
        if kind != pa.float32() or pc.all(pc.is_finite(numbers), min_count=0).as_py():
            return numbers, None
    except pa.ArrowInvalid:
        pass
    good = pc.fill_null(pc.match_substring_regex(text, pattern), True)
    numbers = pc.cast(pc.if_else(good, text, None), kind)
    if kind == pa.float32():
        good = pc.and_(good, pc.fill_null(pc.is_finite(numbers), True))
    return numbers, pc.invert(good)


def _offsets(lists: pa.Array) -> pa.Array:
    """The offsets of an array's lists, shifted to begin at 0 even if the array is a slice."""
    return pa.array(np.concatenate([[0], np.cumsum(pc.list_value_length(lists).to_numpy())]), pa.int32())


def _not_utf8(line: bytes) -> UnicodeDecodeError | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error
    return None
