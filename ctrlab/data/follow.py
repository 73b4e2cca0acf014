"""Rows of files that appear in a folder while they are read, such as those of `ctrlab data join`: each row once, across restarts.

A ledger, one line per file, says in which order the files were taken and how many rows each has. So a number of rows is a place
in the stream. A line is on disk before a row of its file is handed out, and a file of which all rows were used may be deleted.
Inode, size, times and checksum say whether a file is still the one that was taken.

    {"file": "20261124T101500.000000-1f6c0a2b.parquet", "rows": 5120, "sha256": "1d...",
     "inode": 1311, "bytes": 81604, "mtime_ns": 17956017000, "ctime_ns": 17956017000}
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq

from ctrlab.data.faults import first_line, remember
from ctrlab.data.source import Order, Source
from ctrlab.data.tables import conform
from ctrlab.errors import PASSING, BadData, CtrlabError, cure_of, unreadable
from ctrlab.paths import identity, settled
from ctrlab.schema import Schema

if TYPE_CHECKING:
    import tensorflow as tf

LEDGER = "followed.jsonl"
log = logging.getLogger(__name__)


class Taken(NamedTuple):
    """A file as it was when its rows were counted. Its checksum is computed again unless inode, size and times are the same; with
    a `ctime_ns` of 0 they never are.
    """

    rows: int
    sha256: str
    bytes: int
    mtime_ns: int
    inode: int = 0
    ctime_ns: int = 0

    def at(self, about: os.stat_result) -> Taken:
        """The same file with the inode, size and times of `about`."""
        inode, size, mtime, ctime = identity(about)
        return self._replace(inode=inode, bytes=size, mtime_ns=mtime, ctime_ns=ctime if settled(about) else 0)


class Followed:
    """The files of a folder, in the order in which they were found; new ones by name.

    A file that is damaged, or does not fit the schema, is left out, and a log line says so. It is tried again when it has changed
    or, if it could not be opened, at each look. The name of a used file can't be used again: new rows under it are left out, too.

    Args:
        folder: Parquet files appear in it when they are whole; names that begin with "." or "_" are not looked at.
        ledger: a file, kept across restarts; None: in memory.
        start: how many rows were used before, by this ledger.
    Raises:
        CtrlabError: there is no such folder; the ledger can't be read, or has fewer rows than `start`; a file that it names, of
            which rows were not used, is missing or was replaced.
    """

    def __init__(self, folder: Path, schema: Schema, ledger: Path | None = None, start: int = 0):
        self.folder, self.schema, self._ledger = Path(folder), schema, ledger
        if not self.folder.is_dir():
            raise CtrlabError(f"Files are followed in a folder; {folder} is none.")
        self._files = _read(ledger) if ledger else {}
        self._odd: dict[str, tuple[tuple | None, str]] = {}
        """For each file that is left out: its identity, None if it does not matter, and the message that was logged."""
        self.used = start
        """Rows that were handed out and used."""
        self.known = sum(taken.rows for taken in self._files.values())
        """Rows of all files that were taken."""
        if start > self.known:
            raise CtrlabError(
                f"Training goes on after {start} rows; the ledger {ledger} has {self.known}: it is another run's, or was changed."
            )
        self._require_unused()

    def look(self) -> None:
        """Takes the files that have come.

        Raises:
            CtrlabError: the ledger can't be written, or the folder has gone.
        """
        try:
            names = sorted(entry.name for entry in os.scandir(self.folder) if entry.name.endswith(".parquet"))
        except OSError as error:
            raise CtrlabError(f"Files are followed in {self.folder}; it can't be read: {error.strerror}.") from None
        unused = {path.name for path, *_ in self._unused()}
        for name in names:
            if name[0] in "._" or name in unused:
                continue
            if name in self._files:
                self._attempt(name, self._require_same)
            elif taken := self._attempt(name, self._count):
                self._note(name, taken)

    def batches(self, batch_size: int) -> tf.data.Dataset | None:
        """The whole batches that were not used yet, in the form of `ctrlab.data.read`; None if there is none. Rows that do not
        fill a batch come first in the next call.

        Raises:
            CtrlabError: a file of these rows is missing or was replaced.
        """
        if self.known - self.used < batch_size:
            return None
        self._require_unused()
        unused = list(self._unused())
        files, offset = tuple(path for path, *_ in unused), unused[0][2]
        return self._read(files, batch_size, offset)

    def examples(self, batch_size: int) -> tf.data.Dataset | None:
        """Batches of an existing file, used or not; None if there is no file."""
        there = [self.folder / name for name, taken in self._files.items() if taken.rows and (self.folder / name).is_file()]
        return self._read(tuple(there[-1:]), batch_size, 0, drop_remainder=False) if there else None

    def _read(self, files: tuple[Path, ...], batch_size: int, offset: int, drop_remainder: bool = True) -> tf.data.Dataset:
        from ctrlab.data import pipeline  # here, because it imports TensorFlow

        source = Source(files, "parquet", self.schema)
        order = Order(shuffle=0, seed=None, epochs=1, shard=(0, 1), start=offset)
        return pipeline.batches(remember(source, order), batch_size, drop_remainder).prefetch(2)

    def _unused(self):
        """(path, rows, used rows) of each file that still has unused rows."""
        before = 0
        for name, taken in self._files.items():
            if taken.rows and before + taken.rows > self.used:
                yield self.folder / name, taken.rows, max(0, self.used - before)
            before += taken.rows

    def _require_unused(self) -> None:
        for path, rows, _ in self._unused():
            try:
                self._require_same(path, path.stat())
            except (FileNotFoundError, BadData) as problem:
                found = "was replaced" if isinstance(problem, BadData) else "is missing"
                raise CtrlabError(f"Of {path}, {rows} rows were taken and not all are used; it {found}: put it back.") from None
            except OSError as error:
                raise unreadable(str(path), error) from None

    def _require_same(self, path: Path, about: os.stat_result) -> None:
        """Raises BadData if the file is neither the one that was taken nor a copy of it."""
        taken = self._files[path.name]
        if (taken.inode, taken.bytes, taken.mtime_ns, taken.ctime_ns) == identity(about):
            return
        if taken.bytes != about.st_size or _checksum(path) != taken.sha256:
            raise BadData("it was replaced after its rows were taken; give new rows a new name")
        self._files[path.name] = taken.at(about)

    def _attempt(self, name: str, use: Callable[[Path, os.stat_result], Taken | None]) -> Taken | None:
        """Returns the result of `use`; None if the file is left out, which is logged once."""
        path, mark = self.folder / name, None
        before = self._odd.pop(name, None)
        try:
            about = path.stat()
            mark = identity(about)
            if before and before[0] == mark:
                self._odd[name] = before
                return None
            return use(path, about)
        except Exception as problem:  # whatever Arrow says of a file: the next one is taken
            passes = isinstance(problem, MemoryError) or getattr(problem, "errno", None) in (*PASSING, errno.ENOENT)
            self._odd[name] = None if passes else mark, first_line(problem)
            if self._odd[name] != before:
                until = "for now, and is tried again" if passes else "until it changes"
                log.warning("%s is left out %s: %s", path, until, first_line(problem))
            return None

    def _count(self, path: Path, about: os.stat_result) -> Taken:
        if not stat.S_ISREG(about.st_mode):
            raise BadData("it is no file")
        from ctrlab.data.parquet import require_readable  # here, because it imports TensorFlow

        checksum = _checksum(path)
        with pq.ParquetFile(path) as file:
            require_readable(file, self.schema, path)
            table = conform(file.read([column.name for column in self.schema.columns]), self.schema, str(path))
        return Taken(len(table), checksum, 0, 0).at(about)

    def _note(self, name: str, taken: Taken) -> None:
        if self._ledger:
            try:
                with open(self._ledger, "a") as file:
                    file.write(json.dumps({"file": name} | taken._asdict()) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                cure = cure_of(error, "free some space")
                raise CtrlabError(f"The ledger {self._ledger} can't be written: {error.strerror}; {cure}, and resume.") from None
        self._files[name] = taken
        self.known += taken.rows


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(ledger: Path) -> dict[str, Taken]:
    """Reads the ledger: {file: its state when it was taken}. A last line that was cut off is removed: none of its file's rows was
    used.
    """
    try:
        text = ledger.read_text() if ledger.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        found = {}
        for line in whole.splitlines():
            entry = json.loads(line)
            name = str(entry.pop("file"))
            found[name] = taken = Taken(**entry)
            if not (type(taken.rows) is int and taken.rows >= 0):
                raise ValueError(f"rows are {taken.rows!r}")
        if whole != text:
            os.truncate(ledger, len(whole.encode()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        lines = "{'file': 'a.parquet', 'rows': 512, 'sha256': '1d...', 'bytes': 9000, 'mtime_ns': 0, 'ctime_ns': 0, 'inode': 0}"
        raise BadData(f"A ledger has lines such as {lines}; {ledger} has others: {first_line(problem)}.") from None
    return found
