"""The smallest log-structured store over real files, for the lesson that writes its two hard parts: recovery and compaction.

The native store (ctrlab/embedding/store) also has: batches, checksums of the machine, a thread for compaction, an
index of 16 bytes per key, and names of files that survive a loss of power.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
from ctrlab.lessons.topics.hash_store.checks import HEAD, Record, Segments, latest, packed

LIMIT = 1 / 3
"""The share of garbage that the native store allows: 1.5 records per live row."""


def updates(keys: int, count: int, row_bytes: int, seed: int = 1) -> list[tuple[int, bytes | None]]:
    """Yields (key, row, or None for a delete): 80 % of the writes go to a fifth of the keys; one in twenty is a delete."""
    rng = random.Random(seed)
    hot = max(1, keys // 5)
    return [
        (
            rng.randrange(hot) if rng.random() < 0.8 else rng.randrange(keys),
            None if rng.random() < 0.05 else rng.randbytes(row_bytes),
        )
        for _ in range(count)
    ]


def oldest_first(segments: Segments, limit: float) -> tuple[int, list[Record]] | None:
    """Compaction without a choice: always the oldest segment. It needs a store that puts copies after the full segments, as
    `LogStore` does. Then no other segment has an older record of a key, so each tombstone in the oldest one may be dropped.
    """
    newest = latest(segments)
    live = sum(row is not None for _, _, row in newest.values())
    if len(segments) == 1 or live >= (1 - limit) * sum(map(len, segments)):
        return None
    return 0, [record for record in segments[0] if newest[record[1]] is record and record[2] is not None]


def native_amplification(folder: Path, writes: Sequence[tuple[int, bytes | None]], row_bytes: int, capacity: int) -> float:
    """The write amplification of the native store, one write per call, with files of `capacity` records."""
    from ctrlab.embedding.store import Store

    size = 64 + capacity * (HEAD.size + row_bytes)
    with Store(folder, row_bytes, np.uint8, segment_bytes=size, write_buffer=4096, compaction="sync") as store:
        for key, row in writes:
            if row is None:
                store.erase([key])
            else:
                store.put([key], np.frombuffer(row, np.uint8)[None])
        return store.stats().write_amplification


def killed(folder: Path, row_bytes: int) -> dict[str, list[bytes]]:
    """A process puts 1,000 rows of ones into three stores, then rows of twos over 500 of them, and is killed by signal 9.

    In `folder` it leaves: "in place/rows", a file with row k at byte k times its size, killed in the middle of row 500; "log", a
    `LogStore`, in the middle of a record; "native", the native store, which flushed the ones but not the twos.

    Returns:
        The rows that are found "in place" and by the native store, "ours".
    """
    from ctrlab.embedding.store import Store

    module = f"from {__package__} import log_store"
    script = f"import sys; {module}; log_store.write_and_die(sys.argv[1], int(sys.argv[2]))"
    for name in ("in place", "log"):
        (folder / name).mkdir(parents=True)
    ran = subprocess.run([sys.executable, "-c", script, folder, str(row_bytes)], stderr=subprocess.PIPE, check=False)
    if ran.returncode != -signal.SIGKILL:
        raise RuntimeError(f"The process ends by signal 9; it ended with {ran.returncode}: {ran.stderr.decode()[-500:]}")
    data = (folder / "in place" / "rows").read_bytes()
    with Store(folder / "native", row_bytes, np.uint8) as native:
        rows, there = native.get(np.arange(1_000))
    return {
        "in place": [data[begin : begin + row_bytes] for begin in range(0, len(data), row_bytes)],
        "ours": [row.tobytes() for row in rows[there]],
    }


def write_and_die(folder: str, row_bytes: int) -> None:
    """The code of the process of `killed`. It does not return."""
    from ctrlab.embedding.store import Store

    ones, twos = bytes([1]) * row_bytes, bytes([2]) * row_bytes
    native = Store(os.path.join(folder, "native"), row_bytes, np.uint8)
    native.put(np.arange(1_000), np.ones((1_000, row_bytes)))
    native.flush()
    native.put(np.arange(500), np.full((500, row_bytes), 2))
    log = LogStore(Path(folder) / "log", row_bytes, recover=None, compact=lambda segments, limit: None)
    log.put_all([(key, ones) for key in range(1_000)] + [(key, twos) for key in range(500)])
    log.files[-1].write(packed(log.sequence + 1, 500, twos, row_bytes)[: -row_bytes // 2])
    file = os.open(os.path.join(folder, "in place", "rows"), os.O_RDWR | os.O_CREAT)
    os.write(file, ones * 1_000)
    os.pwrite(file, twos * 500 + twos[: row_bytes // 2], 0)
    os.kill(os.getpid(), 9)


class LogStore:
    """Rows by key in the segment files of a folder. Records are appended to the last file.

    Args:
        recover, compact: as defined by the exercises of 03_embedding/07_hash_store.
        limit: the share of garbage that `compact` is asked to allow.
        capacity: records per file.
    Attributes:
        written, copied: records that users wrote, and that compaction wrote again.
    """

    def __init__(
        self, folder: Path, row_bytes: int, recover: Callable, compact: Callable, limit: float = LIMIT, capacity: int = 500
    ):
        self.folder, self.row_bytes, self.compact, self.limit, self.capacity = Path(folder), row_bytes, compact, limit, capacity
        self.written = self.copied = self.number = self.sequence = 0
        self.segments: list[list[Record]] = []
        self.files: list = []
        self.index: dict[int, tuple[object, int]] = {}  # key -> file, offset
        self.newest: dict[int, int] = {}  # key -> sequence number, tombstones among them
        if paths := sorted(self.folder.glob("*.seg")):
            self._load(paths, recover)
        self._open()

    @property
    def write_amplification(self) -> float:
        """Bytes of records written to the files per byte of records that users wrote: all records have one size."""
        return (self.written + self.copied) / max(self.written, 1)

    @property
    def space_amplification(self) -> float:
        """Bytes of records in the files per byte of live rows."""
        return sum(map(len, self.segments)) / max(len(self.index), 1)

    def put(self, key: int, row: bytes | None) -> None:
        """Appends a row, or a tombstone for None, to the last file."""
        self.put_all([(key, row)])

    def put_all(self, writes: Sequence[tuple[int, bytes | None]]) -> None:
        """Puts many rows, with one write per file. When a file is full, excess garbage is compacted."""
        done = 0
        while done < len(writes):
            if len(self.segments[-1]) == self.capacity:
                self._next_file()
            part = writes[done : done + self.capacity - len(self.segments[-1])]
            records = [(self.sequence + n, key, row) for n, (key, row) in enumerate(part, 1)]
            self._append(self.files[-1], self.segments[-1], records)
            self.sequence += len(part)
            self.written += len(part)
            done += len(part)

    def get(self, key: int) -> bytes | None:
        """Gets a row with one read, in whichever file it lies."""
        if key not in self.index:
            return None
        file, offset = self.index[key]
        return os.pread(file.fileno(), self.row_bytes, offset + HEAD.size)

    def rows(self) -> dict[int, bytes]:
        return {key: self.get(key) for key in self.index}

    def close(self) -> None:
        for file in self.files:
            file.close()

    @property
    def record_bytes(self) -> int:
        return HEAD.size + self.row_bytes

    def _open(self) -> None:
        self.number += 1
        self.files.append((self.folder / f"{self.number:06}.seg").open("xb+", buffering=0))
        self.segments.append([])

    def _next_file(self) -> None:
        os.fsync(self.files[-1].fileno())  # records that make others garbage are durable before those go
        self._open()
        while (found := self.compact([list(segment) for segment in self.segments], self.limit)) is not None:
            self._replace(*found)

    def _append(self, file, segment: list[Record], records: list[Record]) -> None:
        file.write(b"".join(packed(*record, self.row_bytes) for record in records))
        for offset, (sequence, key, row) in enumerate(records, len(segment)):
            if self.newest.get(key, 0) <= sequence:
                self.newest[key] = sequence
                self.index.pop(key, None)
                if row is not None:
                    self.index[key] = file, offset * self.record_bytes
        segment += records

    def _replace(self, victim: int, copies: list[Record]) -> None:
        """Replaces a segment: its copies are written to a new file and synced before the old file is deleted."""
        if copies:
            self._open()
            file, segment = self.files.pop(), self.segments.pop()
            self._append(file, segment, [tuple(record) for record in copies])
            os.fsync(file.fileno())
            self.files.insert(-1, file)
            self.segments.insert(-1, segment)
            self.copied += len(segment)
        os.unlink(self.files[victim].name)
        self.files.pop(victim).close()
        self.segments.pop(victim)

    def _load(self, paths: list[Path], recover: Callable) -> None:
        """Loads the store: applies `recover` to each file, and joins the results in the order of the files."""
        whole = [data[: recover(data, self.row_bytes)[1]] for data in (path.read_bytes() for path in paths)]
        self.files = [path.open("rb+", buffering=0) for path in paths]
        self.number = int(paths[-1].stem)
        for data in whole:
            segment = []
            for offset in range(0, len(data), self.record_bytes):
                _, kind, sequence, key = HEAD.unpack_from(data, offset)
                row = data[offset + HEAD.size : offset + self.record_bytes]
                segment.append((sequence, key, None if kind else row))
                self.newest[key] = max(self.newest.get(key, 0), sequence)
            self.segments.append(segment)
        self.sequence = max(self.newest.values(), default=0)
        begins = [0, *accumulate(map(len, whole))]
        for key, offset in recover(b"".join(whole), self.row_bytes)[0].items():
            place = bisect_right(begins, offset) - 1
            self.index[key] = self.files[place], offset - begins[place]


class SQLiteStore:
    """Rows by key in SQLite, the database of Python's library: a B-tree of pages that are updated in place behind a log.

    Like the other stores it survives a killed process, and does not wait for the disk.
    """

    def __init__(self, folder: Path):
        folder.mkdir()
        self._connection = sqlite3.connect(folder / "rows.db", isolation_level=None)
        for setting in ("journal_mode = WAL", "synchronous = OFF"):
            self._connection.execute(f"PRAGMA {setting}")
        self._connection.execute("CREATE TABLE rows (key INTEGER PRIMARY KEY, row BLOB)")

    def put(self, keys: np.ndarray, rows: np.ndarray) -> None:
        """Puts rows in one transaction."""
        self._connection.execute("BEGIN")
        self._connection.executemany(
            "INSERT OR REPLACE INTO rows VALUES (?, ?)", zip(keys.tolist(), (row.tobytes() for row in rows))
        )
        self._connection.execute("COMMIT")

    def get(self, keys: np.ndarray) -> list[bytes]:
        select = "SELECT row FROM rows WHERE key = ?"
        return [self._connection.execute(select, (key,)).fetchone()[0] for key in keys.tolist()]

    def close(self) -> None:
        self._connection.close()


def stores_at_work(folder: Path, keys: int, row_bytes: int, recover: Callable, compact: Callable) -> dict[str, Callable]:
    """Three stores with a row for each of `keys` keys: {name: a function of (keys, rows)} that puts the rows and gets them
    again. "stock" is SQLite, "yours" a `LogStore`, "ours" the native store.
    """
    from ctrlab.embedding.store import Store

    (folder / "yours").mkdir(parents=True)
    stock, ours = SQLiteStore(folder / "stock"), Store(folder / "ours", row_bytes, np.uint8)
    log = LogStore(folder / "yours", row_bytes, recover, compact, capacity=keys)

    def with_stock(keys, rows):
        stock.put(keys, rows)
        return stock.get(keys)

    def with_yours(keys, rows):
        log.put_all([(key, row.tobytes()) for key, row in zip(keys.tolist(), rows)])
        return [log.get(key) for key in keys.tolist()]

    def with_ours(keys, rows):
        ours.put(keys, rows)
        return ours.get(keys)

    stores = {"stock": with_stock, "yours": with_yours, "ours": with_ours}
    for fill in stores.values():
        fill(np.arange(keys), np.zeros((keys, row_bytes), np.uint8))
    return stores
