"""Joins what a server scored with the labels that came later: examples to train on, in the order in which they were scored.

    LOG/20261124T101500.000000-1f6c0a2b.parquet    the examples, as `ctrlab serve --log` writes them
    LABELS/*.parquet, *.csv                        _request, _row, _time, and a column per label: what became of an example
    OUT/20261124T101500.000000-1f6c0a2b.parquet    the examples of that file, with their labels

An example has the largest of the labels that came for it within the window, and 0 where none came: most clicks never happen. A
label may be as much older than its example, because clocks differ. So a file of the log can be joined once the window of its last
example is over, and never needs to be joined again: a file in OUT says that it was. That makes a join that was killed go on where
it was, and two joins of one log write the same.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ctrlab.data.outputs import Replacement, clear_errors
from ctrlab.errors import BadData, CtrlabError

REQUEST, ROW, TIME = "_request", "_row", "_time"
KEYS = {REQUEST: pa.string(), ROW: pa.int32(), TIME: pa.timestamp("us", "UTC")}
GROUP_ROWS = 65_536
log = logging.getLogger(__name__)


@dataclass
class Joined:
    """What a join did.

    Attributes:
        labelled: examples for which a label came in time.
        late: labels of joined examples that came after the example's window, and before that of its file's last one was over.
        waiting: files of the log whose window is not over; all, while there is no file of labels.
    """

    files: int = 0
    rows: int = 0
    labelled: int = 0
    late: int = 0
    waiting: int = 0
    positive: Counter[str] = field(default_factory=Counter)


def join(
    log_folder: Path,
    labels: Path,
    out: Path,
    window: timedelta,
    *,
    delivery: timedelta = timedelta(0),
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_file: Callable[[Path], None] = lambda path: None,
) -> Joined:
    """Joins each file of the log whose window is over and that is not in `out` yet.

    It holds one file of the log in memory, and the labels of its time. Call it again for what has come meanwhile.

    Args:
        log_folder: of one model's log.
        labels: a folder; its files appear there when they are whole.
        out: a folder, made if missing. A file appears in it when it is whole.
        window: how long after its answer an example's labels count.
        delivery: how long a label takes until it is in a file of the folder, at most.
        on_file: called with each file that was written.
    Raises:
        BadData: a file is damaged or lacks a column; files of labels differ in their labels.
        CtrlabError: a folder is missing or can't be written.
    """
    for folder in (log_folder, labels):
        if not folder.is_dir():
            raise CtrlabError(f"A join reads two folders, of the log and of the labels; {folder} is none.")
    if window < timedelta(0) or delivery < timedelta(0):
        raise CtrlabError(f"A window and a delivery take no less than 0 s; received {window} and {delivery}.")
    known, found = LabelFiles(labels), Joined()
    with clear_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    for path in files_in(log_folder, ".parquet"):
        if (out / path.name).exists():
            continue
        examples = read_parquet(path)
        require(examples.schema, path)
        if not len(examples):
            continue
        begin, end = (value.as_py() for value in pc.min_max(examples[TIME].cast(KEYS[TIME])).values())
        if now() < end + window + delivery or not known.names:  # without a file of labels nobody knows what they are called
            found.waiting += 1
            continue
        labelled = with_labels(once(examples), known.between(begin - window, end + window), known.names, window, found)
        with clear_errors(out / path.name), Replacement(out / path.name) as file:
            pq.write_table(labelled, file.file, compression="zstd", row_group_size=GROUP_ROWS)
            file.keep()
        found.files += 1
        found.rows += len(labelled)
        on_file(out / path.name)
    return found


def follow(log_folder: Path, labels: Path, out: Path, window: timedelta, *, every: float, **options) -> Iterator[Joined]:
    """Joins for ever: looks every so many seconds, and yields what was joined. A file that can't be read yet is tried again."""
    while True:
        try:
            yield join(log_folder, labels, out, window, **options)
        except BadData as problem:
            log.warning("%s It is tried again.", problem)
        time.sleep(every)


class LabelFiles:
    """The labels in a folder, by their time. Reads a file's range once, and its labels when a join needs them."""

    def __init__(self, folder: Path):
        self._files = [(path, *self._range(path)) for path in files_in(folder, ".parquet", ".csv")]
        names = {path: tuple(name for name in schema.names if name not in KEYS) for path, schema, *_ in self._files}
        self.names = next(iter(names.values()), ())
        """Of the labels."""
        for path, other in names.items():
            if sorted(other) != sorted(self.names):
                first = next(iter(names))
                raise BadData(f"Files of labels have the same labels; {first} has {self.names}, {path} has {other}.")
        if self._files and not self.names:
            raise BadData(f"Labels have a column each, such as `click`; {self._files[0][0]} has none beside {', '.join(KEYS)}.")

    def between(self, begin: datetime, end: datetime) -> pa.Table:
        """The labels of that time, its ends included."""
        parts = [pa.schema([*KEYS.items(), *((name, pa.float32()) for name in self.names)]).empty_table()]
        for path, _, first, last in self._files:
            if first is not None and first <= end and begin <= last:
                table = read_labels(path)
                inside = pc.and_(pc.greater_equal(table[TIME], begin), pc.less_equal(table[TIME], end))
                parts.append(table.filter(inside).select(parts[0].column_names))
        return pa.concat_tables(parts)

    @staticmethod
    def _range(path: Path) -> tuple[pa.Schema, datetime | None, datetime | None]:
        if path.suffix == ".parquet":
            try:
                file = pq.ParquetFile(path)
                groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            except (OSError, pa.ArrowException) as error:
                raise _damaged(path, error) from None
            require(file.schema_arrow, path)
            columns = [group.column(i) for group in groups if group.num_rows for i in range(group.num_columns)]
            statistics = [column.statistics for column in columns if column.path_in_schema == TIME]
            if file.schema_arrow.field(TIME).type == KEYS[TIME] and all(s and s.has_min_max for s in statistics):
                first, last = min((s.min for s in statistics), default=None), max((s.max for s in statistics), default=None)
                return file.schema_arrow, first, last
        table = read_labels(path)
        ends = pc.min_max(table[TIME])
        return table.schema, ends["min"].as_py(), ends["max"].as_py()


def once(examples: pa.Table) -> pa.Table:
    """The first of the examples of each request and row: a client that asks twice gets two answers, of one event."""
    keys = examples.select([REQUEST, ROW]).append_column("at", pa.array(np.arange(len(examples))))
    first = keys.group_by([REQUEST, ROW]).aggregate([("at", "min")])["at_min"].to_numpy()
    return examples if len(first) == len(examples) else examples.take(np.sort(first))


def with_labels(examples: pa.Table, labels: pa.Table, names: tuple[str, ...], window: timedelta, found: Joined) -> pa.Table:
    """The examples with a float32 column for each label; counts in `found`.

    Raises:
        BadData: a column of the examples is called as a label is.
    """
    if taken := set(names) & set(examples.column_names):
        raise BadData(f"Labels have names of their own; the log has columns called {', '.join(sorted(taken))}, too.")
    keys = {REQUEST: examples[REQUEST], ROW: examples[ROW].cast(pa.int32()), "scored": examples[TIME].cast(KEYS[TIME])}
    pairs = pa.table(keys | {"at": np.arange(len(examples))}).join(labels, [REQUEST, ROW], join_type="inner")
    after = pc.subtract(pairs[TIME], pairs["scored"]).cast(pa.int64()).to_numpy()  # microseconds
    most = window // timedelta(microseconds=1)
    found.late += int((after > most).sum())
    pairs = pairs.filter(pa.array(abs(after) <= most))
    rows = pairs["at"].to_numpy()
    found.labelled += len(np.unique(rows))
    for name in names:
        values = np.zeros(len(examples), np.float32)
        np.maximum.at(values, rows, pairs[name].to_numpy())
        found.positive[name] += int((values > 0).sum())
        examples = examples.append_column(name, pa.array(values))
    return examples


def files_in(folder: Path, *suffixes: str) -> list[Path]:
    """Files with these suffixes by name; names that begin with "." or "_" are of files that are not whole."""
    return sorted(path for path in folder.iterdir() if path.suffix in suffixes and path.name[0] not in "._")


def read_parquet(path: Path) -> pa.Table:
    """Raises BadData where it is damaged."""
    try:
        return pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from None


def read_labels(path: Path) -> pa.Table:
    """A file of labels: `KEYS`, and float32 for each label.

    Raises:
        BadData: it is damaged, lacks a column, or a value has no place in it.
    """
    if path.suffix == ".csv":
        try:
            options = pa_csv.ConvertOptions(column_types={REQUEST: pa.string(), ROW: pa.int32()})
            table = pa_csv.read_csv(path, convert_options=options)
        except (OSError, pa.ArrowException) as error:
            raise _damaged(path, error) from None
    else:
        table = read_parquet(path)
    require(table.schema, path)
    columns = {}
    for name in table.column_names:
        values = table[name]
        if values.null_count:
            raise BadData(f"A label has every value; column {name} of {path} lacks {values.null_count}.")
        try:
            if name == TIME and pa.types.is_timestamp(values.type) and values.type.tz is None:
                values = pc.assume_timezone(values, "UTC")
            columns[name] = values.cast(KEYS.get(name, pa.float32()), safe=name != TIME)
        except (pa.ArrowException, ValueError) as error:
            raise BadData(f"Column {name} of {path} must be {KEYS.get(name, pa.float32())}: {error}") from None
        if name not in KEYS and not np.all((columns[name].to_numpy() >= 0) & np.isfinite(columns[name].to_numpy())):
            raise BadData(f"A label is a finite number of at least 0; column {name} of {path} has others.")
    return pa.table(columns)


def require(schema: pa.Schema, path: Path) -> None:
    """Raises BadData where a column that joins is missing."""
    if missing := [name for name in KEYS if name not in schema.names]:
        raise BadData(f"A join needs the columns {', '.join(KEYS)}; {path} lacks {', '.join(missing)}.")


def _damaged(path: Path, error: Exception) -> BadData:
    why = str(error).splitlines()[0]
    return BadData(f"{path} is no whole file of its format (damaged, cut off, or still being written): {why}.")
