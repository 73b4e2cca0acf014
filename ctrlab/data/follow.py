"""Rows of files that appear in a folder while they are read, such as those of `ctrlab data join`: each row once, across restarts.

A ledger, one line per file, says in which order the files were taken and how many rows each has. So a number of rows is a place
in the stream. A line is on disk before a row of its file is handed out, and a file of which all rows were used may be deleted.

    {"file": "20261124T101500.000000-1f6c0a2b.parquet", "rows": 5120}
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from ctrlab.data.faults import remember
from ctrlab.data.source import Order, Source
from ctrlab.data.tables import conform
from ctrlab.errors import BadData, CtrlabError, cure_of
from ctrlab.features import Schema

if TYPE_CHECKING:
    import tensorflow as tf

LEDGER = "followed.jsonl"
log = logging.getLogger(__name__)


class Followed:
    """The files of a folder, in the order in which they were found; new ones by name.

    A file that is damaged, or does not fit the schema, is said in a log line and left out; it is tried again when it has changed.

    Args:
        folder: Parquet files appear in it when they are whole; names that begin with "." or "_" are not looked at.
        ledger: a file, kept across restarts; None: in memory.
        start: how many rows were used before, by this ledger.
    Raises:
        CtrlabError: there is no such folder; the ledger can't be read, or has fewer rows than `start`; a file that it names, of
            which rows were not used, is missing or has another number of rows.
    """

    def __init__(self, folder: Path, schema: Schema, ledger: Path | None = None, start: int = 0):
        self.folder, self.schema, self._ledger = Path(folder), schema, ledger
        if not self.folder.is_dir():
            raise CtrlabError(f"Files are followed in a folder; {folder} is none.")
        self._files = _read(ledger) if ledger else {}
        self._odd: dict[str, tuple] = {}
        self.used = start
        """Rows that were handed out and used."""
        self.known = sum(self._files.values())
        """Rows of all files that were taken."""
        if start > self.known:
            raise CtrlabError(
                f"Training goes on after {start} rows; the ledger {ledger} has {self.known}: it is another run's, or was changed."
            )
        for path, rows, _ in self._unused():
            if not path.is_file() or (found := pq.read_metadata(path).num_rows) != rows:
                has = f"has {found}" if path.is_file() else "is missing"
                raise CtrlabError(f"Of {path}, {rows} rows were taken and not all are used; it {has}: put it back.")

    def look(self) -> None:
        """Takes the files that have come.

        Raises:
            CtrlabError: the ledger can't be written, or the folder has gone.
        """
        try:
            names = sorted(entry.name for entry in os.scandir(self.folder) if entry.name.endswith(".parquet"))
        except OSError as error:
            raise CtrlabError(f"Files are followed in {self.folder}; it can't be read: {error.strerror}.") from None
        for name in names:
            if name not in self._files and name[0] not in "._" and (rows := self._rows(name)) is not None:
                self._note(name, rows)

    def batches(self, batch_size: int) -> tf.data.Dataset | None:
        """The whole batches that were not used yet, as `ctrlab.data.read` has them; None where there is none. The rows that are
        left over are the first of the next."""
        if self.known - self.used < batch_size:
            return None
        unused = list(self._unused())
        files, offset = tuple(path for path, *_ in unused), unused[0][2]
        return self._read(files, batch_size, offset)

    def examples(self, batch_size: int) -> tf.data.Dataset | None:
        """Batches of a file that is there, used or not; None where there is none."""
        there = [self.folder / name for name, rows in self._files.items() if rows and (self.folder / name).is_file()]
        return self._read(tuple(there[-1:]), batch_size, 0, drop_remainder=False) if there else None

    def _read(self, files: tuple[Path, ...], batch_size: int, offset: int, drop_remainder: bool = True) -> tf.data.Dataset:
        from ctrlab.data import pipeline  # here, because it imports TensorFlow

        source = Source(files, "parquet", self.schema)
        remember(source)
        order = Order(shuffle=0, seed=None, epochs=1, shard=(0, 1), start=offset)
        return pipeline.batches(source, order, batch_size, drop_remainder).prefetch(2)

    def _unused(self):
        """(path, rows, how many of them were used) of the files that have others."""
        before = 0
        for name, rows in self._files.items():
            if rows and before + rows > self.used:
                yield self.folder / name, rows, max(0, self.used - before)
            before += rows

    def _rows(self, name: str) -> int | None:
        path = self.folder / name
        try:
            about = path.stat()
            if self._odd.get(name) == (about.st_size, about.st_mtime_ns):
                return None
            names = pq.read_schema(path).names
            columns = [column.name for column in self.schema.columns if column.name in names]
            table = pq.read_table(path, columns=columns, partitioning=None)
            return len(conform(table, self.schema, str(path)))
        except Exception as problem:  # whatever Arrow says of a file: the next one is taken
            self._odd[name] = (about.st_size, about.st_mtime_ns)
            log.warning("%s is left out until it changes: %s", path, str(problem).splitlines()[0])
            return None

    def _note(self, name: str, rows: int) -> None:
        if self._ledger:
            try:
                with open(self._ledger, "a") as file:
                    file.write(json.dumps({"file": name, "rows": rows}) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                cure = cure_of(error, "free some space")
                raise CtrlabError(f"The ledger {self._ledger} can't be written: {error.strerror}; {cure}, and resume.") from None
        self._files[name] = rows
        self.known += rows


def _read(ledger: Path) -> dict[str, int]:
    """{file: rows}. A last line that was cut off is taken out: none of its file's rows was used."""
    try:
        text = ledger.read_text() if ledger.exists() else ""
        if whole := text[: text.rfind("\n") + 1]:
            files = [json.loads(line) for line in whole.splitlines()]
            found = {str(each["file"]): int(each["rows"]) for each in files}
        else:
            found = {}
        if whole != text:
            os.truncate(ledger, len(whole.encode()))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise BadData(f"A ledger has lines such as {{'file': 'a.parquet', 'rows': 512}}; {ledger} is none: {problem}.") from None
    return found
