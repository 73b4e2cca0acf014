"""Joins what a server scored with the labels that came later: examples to train on, in the order in which they were scored.

    LOG/20261124T101500.000000-1f6c0a2b.parquet    the examples, as `ctrlab serve --log` writes them
    LABELS/*.parquet, *.csv                        what became of an example: see `ctrlab.data.labels`
    OUT/20261124T101500.000000-1f6c0a2b.parquet    the examples of that file, with their labels

An example gets the largest of the labels that came for it within the window, and 0 if none came: most clicks never happen.
Because clocks differ, a label may also be older than its example, by at most the window. So a file of the log can be joined once
the window of its last example is over, and never needs to be joined again: a file in OUT says that it was. That makes a join that
was killed go on where it was, and two joins of one log write the same.

A request that came twice counts as one event if both are in one file of the log, and as two events otherwise.
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
import pyarrow.parquet as pq

from ctrlab.data.labels import REQUEST, ROW, TIME, LabelFiles, damaged, files_in, keys_of, require_columns
from ctrlab.data.outputs import Replacement, clear_errors, sweep
from ctrlab.errors import BadData, CtrlabError

GROUP_ROWS = 65_536
MOST = timedelta(days=36_500)
log = logging.getLogger(__name__)


@dataclass
class Joined:
    """What a join did.

    Attributes:
        again: examples that are left out, because the same request and row came before in the file.
        labelled: examples for which a label came in time.
        late: labels of joined examples that came after the example's own window, but before the window of its file's last example
            was over.
        waiting: files of the log whose window is not over; all files, while there is no file of labels.
    """

    files: int = 0
    rows: int = 0
    again: int = 0
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
    on_bad: Callable[[BadData], None] | None = None,
) -> Joined:
    """Joins each file of the log whose window is over and that is not in `out` yet.

    It holds one file of the log in memory, and the labels of its time. Call it again for what has come meanwhile.

    Args:
        log_folder: the log of one model.
        labels: a folder; its files appear there when they are whole.
        out: a folder, made if missing. A file appears in it when it is whole.
        window: how long after its answer an example's labels count.
        delivery: the longest time until a label is in a file of the folder.
        on_file: called with each file that was written.
        on_bad: called with the error of a bad file of the log, which is then left out; None: the error is raised.
    Raises:
        BadData: a file is damaged or lacks a column; files of labels differ in their labels.
        CtrlabError: a folder is missing or can't be written.
    """
    require_window(window, delivery)
    for folder in (log_folder, labels):
        if not folder.is_dir():
            raise CtrlabError(f"A join reads two folders, of the log and of the labels; {folder} is none.")
    known, found = LabelFiles(labels), Joined()
    with clear_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        sweep(out)
    for path in files_in(log_folder, ".parquet"):
        if (out / path.name).exists():
            continue
        try:
            examples = read_parquet(path)
            require_columns(examples.schema, path)
            keys = pa.table(keys_of(examples, path))
        except BadData as problem:
            if on_bad is None:
                raise
            on_bad(problem)
            continue
        if not len(examples):
            continue
        begin, end = pc.min_max(keys[TIME]).as_py().values()
        if now() < end + window + delivery or not known.names:  # without a file of labels nobody knows what they are called
            found.waiting += 1
            continue
        rows = first_rows(keys)
        if len(rows) < len(keys):
            found.again += len(keys) - len(rows)
            examples, keys = examples.take(rows), keys.take(rows)
        of_its_time = known.between(begin - window, end + window)
        labelled = with_labels(examples, keys, of_its_time, known.names, window, found)
        with clear_errors(out / path.name), Replacement(out / path.name) as file:
            pq.write_table(labelled, file.file, compression="zstd", row_group_size=GROUP_ROWS)
            file.keep()
        found.files += 1
        found.rows += len(labelled)
        on_file(out / path.name)
    return found


def require_window(window: timedelta, delivery: timedelta = timedelta(0)) -> None:
    """Raises CtrlabError if a time is below 0, or longer than a human life."""
    if not (timedelta(0) <= window <= MOST and timedelta(0) <= delivery <= MOST):
        raise CtrlabError(f"A window and a delivery take 0 s to {MOST.days} days; received {window} and {delivery}.")


def follow(log_folder: Path, labels: Path, out: Path, window: timedelta, *, every: float, **options) -> Iterator[Joined]:
    """Joins forever: looks at the folders at fixed intervals, in seconds, and yields the result of each join.

    A file of the log that can't be read is left out. Any other problem, such as a folder that does not exist yet or a full disk,
    ends the look. A problem is reported when it begins, and everything is tried again at each look.

    Raises:
        CtrlabError: the times make no sense.
    """
    require_window(window, options.get("delivery", timedelta(0)))
    said = Said()
    while True:
        try:
            yield join(log_folder, labels, out, window, on_bad=said, **options)
        except (CtrlabError, OSError) as problem:
            said(problem)
        said.look_is_over()
        time.sleep(every)


class Said:
    """Reports a problem when it first appears, and not again while every look still meets it."""

    def __init__(self):
        self._before, self._now = set(), set()

    def __call__(self, problem: Exception) -> None:
        self._now.add(str(problem))
        if str(problem) not in self._before:
            log.warning("%s It is tried again.", problem)

    def look_is_over(self) -> None:
        self._before, self._now = self._now, set()


def first_rows(keys: pa.Table) -> np.ndarray:
    """The places at which each pair of request and row comes first. A client that sends a request twice gets two answers, but it
    is one event.
    """
    numbered = keys.select([REQUEST, ROW]).append_column("at", pa.array(np.arange(len(keys))))
    return np.sort(numbered.group_by([REQUEST, ROW]).aggregate([("at", "min")])["at_min"].to_numpy())


def with_labels(
    examples: pa.Table, keys: pa.Table, labels: pa.Table, names: tuple[str, ...], window: timedelta, found: Joined
) -> pa.Table:
    """The examples, with a float32 column for each label; adds to the counts in `found`.

    Raises:
        BadData: a column of the examples has the name of a label.
    """
    if taken := set(names) & set(examples.column_names):
        raise BadData(f"Labels have names of their own; the log has columns called {', '.join(sorted(taken))}, too.")
    scored = pa.table({REQUEST: keys[REQUEST], ROW: keys[ROW], "scored": keys[TIME], "at": np.arange(len(keys))})
    numbered = labels.rename_columns([REQUEST, ROW, "came", *map(str, range(len(names)))])  # a label may be called `at`, too
    pairs = scored.join(numbered, [REQUEST, ROW], join_type="inner")
    after = pc.subtract(pairs["came"], pairs["scored"]).cast(pa.int64()).to_numpy()  # microseconds
    most = window // timedelta(microseconds=1)
    found.late += int((after > most).sum())
    pairs = pairs.filter(pa.array(abs(after) <= most))
    rows = pairs["at"].to_numpy()
    found.labelled += len(np.unique(rows))
    for number, name in enumerate(names):
        values = np.zeros(len(examples), np.float32)
        np.maximum.at(values, rows, pairs[str(number)].to_numpy())
        found.positive[name] += int((values > 0).sum())
        examples = examples.append_column(name, pa.array(values))
    return examples


def read_parquet(path: Path) -> pa.Table:
    """Reads a Parquet file; raises BadData if it is damaged."""
    try:
        return pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise damaged(path, error) from None
