"""The smallest hash store over real files, for the lesson that writes its two hard parts: recovery and compaction.

What the native store (ctrlab/embedding/store) does beside this: batches, checksums of the machine, a thread for compaction,
an index of 16 bytes a key.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ctrlab.lessons.checks.hash_store import HEAD, Record, packed


def killed_store(folder: Path) -> None:
    """A process puts 1,000 rows of 4 ones into the native store in `folder`, flushes, puts 500 of zeros, and is killed."""
    script = (
        "import os, signal, sys; import numpy as np; from ctrlab.embedding.store import Store; store = Store(sys.argv[1], dim=4);"
        "store.put(np.arange(1000), np.ones((1000, 4))); store.flush(); store.put(np.arange(500), np.zeros((500, 4)));"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, folder], stderr=subprocess.DEVNULL, check=False)


class LogStore:
    """Rows by key in the files of a folder, the oldest first; the last is written at its end.

    Args:
        recover, compact: as the exercises of 03_embedding/07_hash_store define them.
        capacity: records a file.
    Attributes:
        written, copied: records that users wrote, and that compaction wrote again.
    """

    def __init__(self, folder: Path, row_bytes: int, recover: Callable, compact: Callable, capacity: int = 500):
        self.folder, self.row_bytes, self.recover, self.compact, self.capacity = (
            Path(folder),
            row_bytes,
            recover,
            compact,
            capacity,
        )
        self.written = self.copied = self.number = self.sequence = 0
        self.segments: list[list[Record]] = []
        self.files: list = []
        self.index: dict[int, tuple[int, object, int]] = {}  # key -> sequence number, file, offset
        newest: dict[int, int] = {}
        for path in sorted(self.folder.glob("*.seg")):
            self._load(path, newest)
        self._open()

    @property
    def write_amplification(self) -> float:
        return (self.written + self.copied) / max(self.written, 1)

    def put(self, key: int, row: bytes | None) -> None:
        """A row, or None for a tombstone, to the end of the last file; then the garbage that is too much goes."""
        if len(self.segments[-1]) == self.capacity:
            self._open()
            while (found := self.compact([list(segment) for segment in self.segments])) is not None:
                self._replace(*found)
        self.written += 1
        self.sequence += 1
        self._append(self.files[-1], self.segments[-1], (self.sequence, key, row))

    def get(self, key: int) -> bytes | None:
        """One read, wherever the row lies."""
        if key not in self.index:
            return None
        _, file, offset = self.index[key]
        return os.pread(file.fileno(), self.row_bytes, offset + HEAD.size)

    def rows(self) -> dict[int, bytes]:
        return {key: self.get(key) for key in self.index}

    def close(self) -> None:
        for file in self.files:
            file.close()

    def _open(self) -> None:
        self.number += 1
        self.files.append((self.folder / f"{self.number:06}.seg").open("xb+", buffering=0))
        self.segments.append([])

    def _append(self, file, segment: list[Record], record: Record) -> None:
        sequence, key, row = record
        offset = file.seek(0, os.SEEK_END)
        file.write(packed(sequence, key, row, self.row_bytes))
        segment.append(record)
        if row is not None:
            self.index[key] = sequence, file, offset
        elif key in self.index and self.index[key][0] < sequence:
            del self.index[key]

    def _replace(self, victim: int, copies: list[Record]) -> None:
        """The copies go to a file of their own and to the disk before the old file goes."""
        if copies:
            self._open()
            file, segment = self.files.pop(), self.segments.pop()
            for record in copies:
                self._append(file, segment, record)
            os.fsync(file.fileno())
            self.files.insert(0, file)
            self.segments.insert(0, segment)
            self.copied += len(copies)
            victim += 1
        os.unlink(self.files[victim].name)
        self.files.pop(victim).close()
        self.segments.pop(victim)

    def _load(self, path: Path, newest: dict[int, int]) -> None:
        data = path.read_bytes()
        file, segment = path.open("rb+", buffering=0), []
        self.number = int(path.stem)
        _, end = self.recover(data, self.row_bytes)
        for offset in range(0, end, HEAD.size + self.row_bytes):
            _, kind, sequence, key = HEAD.unpack_from(data, offset)
            row = data[offset + HEAD.size : offset + HEAD.size + self.row_bytes] if kind == 0 else None
            segment.append((sequence, key, row))
            self.sequence = max(self.sequence, sequence)
            if newest.get(key, 0) < sequence:
                newest[key] = sequence
                self.index.pop(key, None)
                if row is not None:
                    self.index[key] = sequence, file, offset
        self.files.append(file)
        self.segments.append(segment)
