"""Files of labels: what became of an example, by its request, row and time.

    _request, _row     of the answer
    _time              when the label came: a timestamp, or text with a date and a time; without a zone it is UTC
    click, ...         a column per label: 0 or 1

Parquet is read in batches, and only the rows of the wanted time are kept; CSV is read whole. Rows are counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ctrlab.data.faults import first_line
from ctrlab.errors import BadData
from ctrlab.schema.frames import NAMELESS, require_decimal, require_no_mark

REQUEST, ROW, TIME = "_request", "_row", "_time"
KEYS = {REQUEST: pa.string(), ROW: pa.int32(), TIME: pa.timestamp("us", "UTC")}
BATCH_ROWS = 65_536
YEARS = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""The years in which a time may lie. A time outside them was written in another unit."""
TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"
ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"


class LabelFiles:
    """The labels in a folder, by their time. The range of times of a file is read once; its labels are read when a join needs
    them.
    """

    def __init__(self, folder: Path):
        self._files = [(path, *_about(path)) for path in files_in(folder, ".parquet", ".csv")]
        names = {path: tuple(filter(_is_label, columns)) for path, columns, *_ in self._files}
        self.names = next(iter(names.values()), ())
        """The names of the labels."""
        for path, other in names.items():
            if sorted(other) != sorted(self.names):
                first = next(iter(names))
                raise BadData(f"Files of labels have the same labels; {first} has {self.names}, {path} has {other}.")
        if self._files and not self.names:
            raise BadData(f"Labels have a column each, such as `click`; {self._files[0][0]} has none beside {', '.join(KEYS)}.")

    def between(self, begin: datetime, end: datetime) -> pa.Table:
        """The labels whose time lies between the two moments, both included."""
        parts = [pa.schema([*KEYS.items(), *((name, pa.float32()) for name in self.names)]).empty_table()]
        for path, _, first, last in self._files:
            if first is not None and first <= end and begin <= last:
                for table in read_labels(path):
                    inside = pc.and_(pc.greater_equal(table[TIME], begin), pc.less_equal(table[TIME], end))
                    parts.append(table.filter(inside).select(parts[0].column_names))
        return pa.concat_tables(parts)


def _is_label(name: str) -> bool:
    """Whether a column of this name is a label. One without a name holds row numbers, as pandas writes its index."""
    return name not in KEYS and not NAMELESS.fullmatch(name)


def _about(path: Path) -> tuple[list[str], datetime | None, datetime | None]:
    """The columns of a file, and its first and last time."""
    if path.suffix == ".parquet":
        try:
            with pq.ParquetFile(path) as file:
                schema, groups = file.schema_arrow, [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        except (OSError, pa.ArrowException) as error:
            raise damaged(path, error) from None
        require_columns(schema, path)
        columns = [group.column(i) for group in groups if group.num_rows for i in range(group.num_columns)]
        statistics = [column.statistics for column in columns if column.path_in_schema == TIME]
        if schema.field(TIME).type == KEYS[TIME] and all(s and s.has_min_max for s in statistics):
            raw = [value for s in statistics for value in (s.min_raw, s.max_raw)]
            ends = times(pa.chunked_array([pa.array(raw, pa.int64()).cast(KEYS[TIME])]), path).to_pylist()
            return schema.names, min(ends, default=None), max(ends, default=None)
    ends, names = [], []
    for table in read_labels(path):
        names = table.column_names
        ends += [end for end in pc.min_max(table[TIME]).as_py().values() if end]
    return names, min(ends, default=None), max(ends, default=None)


def read_labels(path: Path) -> Iterator[pa.Table]:
    """The parts of a file of labels, at least one: `KEYS`, and float32 for each label.

    Raises:
        BadData: the file is damaged, lacks a column, or has an invalid value.
    """
    rows = 0
    for table in _parts(path):
        require_columns(table.schema, path)
        columns: dict[str, pa.ChunkedArray] = keys_of(table, path, rows)
        for name in table.column_names:
            if _is_label(name):
                columns[name] = _column(table, name, path, pa.float32())
                require_binary(columns[name].to_numpy(), name, path, rows)
        rows += len(table)
        yield pa.table(columns)


def _parts(path: Path) -> Iterator[pa.Table]:
    try:
        if path.suffix == ".csv":
            options = pa_csv.ConvertOptions(column_types={REQUEST: pa.string(), ROW: pa.int32(), TIME: pa.string()})
            table = pa_csv.read_csv(path, convert_options=options)
            require_no_mark(table, path)
            require_decimal(path, ",", [field.name for field in table.schema if pa.types.is_integer(field.type)])
            yield table
            return
        with pq.ParquetFile(path) as file:
            yield file.schema_arrow.empty_table()
            for batch in file.iter_batches(BATCH_ROWS):
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        raise damaged(path, error) from None


def keys_of(table: pa.Table, path: Path, before: int = 0) -> dict[str, pa.ChunkedArray]:
    """The columns `KEYS` of a part of a file, of the log or of labels; the given number of rows precedes this part.

    Raises:
        BadData: a value is missing, or of another kind.
    """
    keys = {name: _column(table, name, path, type) for name, type in KEYS.items() if name != TIME}
    return keys | {TIME: times(_column(table, TIME, path), path, before)}


def _column(table: pa.Table, name: str, path: Path, type: pa.DataType | None = None) -> pa.ChunkedArray:
    values = table[name]
    if values.null_count:
        raise BadData(f"Each row has every value; column {name} of {path} lacks {values.null_count}.")
    try:
        return values.cast(type) if type else values
    except (pa.ArrowException, ValueError) as error:
        raise BadData(f"Column {name} of {path} must be {type}: {first_line(error)}.") from None


def times(values: pa.ChunkedArray, path: Path, before: int = 0) -> pa.ChunkedArray:
    """Converts timestamps or text to moments in UTC. A number is refused, because its unit is unknown.

    Raises:
        BadData: a time is a number, a date without a time, or outside these years.
    """
    if not len(values):
        return pa.chunked_array([], KEYS[TIME])
    try:
        if pa.types.is_dictionary(values.type) or not pa.types.is_temporal(values.type):
            values = _of_text(values, path, before)
        if not pa.types.is_timestamp(values.type):
            raise BadData(_rule(path, f"is {values.type}"))
        if values.type.tz is None:
            values = pc.assume_timezone(values, "UTC")
        seconds = values.cast(pa.timestamp("s", "UTC"), safe=False).cast(pa.int64()).to_numpy()
        odd = np.flatnonzero((seconds < YEARS[0].timestamp()) | (seconds >= YEARS[1].timestamp()))
        if len(odd):
            raise BadData(
                f"A {TIME} is of the years {YEARS[0].year} to {YEARS[1].year}; that of {path} is not in row "
                f"{before + odd[0]}, counted from 0."
            )
        return values.cast(KEYS[TIME], safe=False)
    except pa.ArrowException as error:
        raise BadData(_rule(path, f"is none: {first_line(error)}")) from None


def _of_text(values: pa.ChunkedArray, path: Path, before: int) -> pa.ChunkedArray:
    type = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type)):
        raise BadData(_rule(path, f"is {type}"))
    text = values.cast(pa.string())
    odd = np.flatnonzero(~pc.match_substring_regex(text, TEXT).to_numpy())
    if len(odd):
        raise BadData(_rule(path, f"is {text[int(odd[0])].as_py()!r:.60} in row {before + odd[0]}, counted from 0"))
    zoned = pc.match_substring_regex(text, ZONE)
    return pc.if_else(zoned, text, pc.binary_join_element_wise(text, "Z", "")).cast(pa.timestamp("ns", "UTC"))


def _rule(path: Path, found: str) -> str:
    return f"A {TIME} is a timestamp, or text with a date and a time such as 2026-11-24T10:15:00Z; that of {path} {found}."


def require_binary(values: np.ndarray, name: str, path: Path, before: int = 0) -> None:
    """Raises BadData if a label is neither 0 nor 1."""
    odd = np.flatnonzero((values != 0) & (values != 1))
    if len(odd):
        raise BadData(
            f"A label is 0 or 1; column {name!r} of {path} has {values[odd[0]]} in row {before + odd[0]}, counted from 0."
        )


def files_in(folder: Path, *suffixes: str) -> list[Path]:
    """The files with these suffixes, sorted by name. Names that begin with "." or "_" belong to incomplete files and are left
    out.
    """
    return sorted(path for path in folder.iterdir() if path.suffix in suffixes and path.name[0] not in "._")


def require_columns(schema: pa.Schema, path: Path) -> None:
    """Raises BadData if a column that the join needs is missing, or if a column occurs twice."""
    if missing := [name for name in KEYS if name not in schema.names]:
        raise BadData(f"A join needs the columns {', '.join(KEYS)}; {path} lacks {', '.join(missing)}.")
    if twice := sorted({name for name in schema.names if schema.names.count(name) > 1}):
        raise BadData(f"A column has a name of its own; {path} has {', '.join(twice)} more than once.")


def damaged(path: Path, error: Exception) -> BadData:
    why = first_line(error).rstrip(".")
    return BadData(f"{path} is no whole file of its format (damaged, cut off, or still being written): {why}.")
