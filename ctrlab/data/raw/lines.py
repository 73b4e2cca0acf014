"""Reads text files of any size as blocks of whole lines, in bounded memory. Gzip is recognised by its first bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ctrlab.errors import BadData
from ctrlab.schema.frames import UTF_8_MARK, UTF_16

CHUNK = 1 << 20  # bytes per read
MOST_BYTES = 32 << 20  # a block ends at this size even if it has fewer lines than asked for
NEWLINE = 10


@dataclass(frozen=True)
class Block:
    """Whole lines of one file; every line in `data` ends with a newline. `first` is the number of the first line, from 1."""

    path: Path
    first: int
    data: bytes

    @cached_property
    def ends(self) -> np.ndarray:
        """The position of each line's newline: int64 [lines]."""
        return np.flatnonzero(np.frombuffer(self.data, np.uint8) == NEWLINE)

    def __len__(self) -> int:
        return len(self.ends)

    def line(self, index: int) -> bytes:
        """A line without its newline."""
        start = self.ends[index - 1] + 1 if index else 0
        return self.data[start : self.ends[index]]

    def after(self, lines: int) -> Block:
        """The block without its first lines."""
        return Block(self.path, self.first + lines, self.data[self.ends[lines - 1] + 1 :] if lines else self.data)


class LineFile:
    """A text file, plain or gzip, that is read in blocks of lines.

    Args:
        path: the file.
        advance: called with the number of bytes read from disk since its last call (compressed bytes for gzip).
    Raises:
        BadData: the file is missing, empty, an archive, damaged or truncated, or has a line of more than 32 MiB.
    """

    def __init__(self, path: Path, advance: Callable[[int], None] = lambda _: None):
        self.path, self._advance = Path(path), advance
        self._told = 0  # bytes of the file reported to `advance`
        self._taken = self._read_lines = 0  # lines returned, and newlines read so far
        self._pending = b""  # read, but not returned yet
        try:
            self._disk = open(self.path, "rb")  # noqa: SIM115 (closed with this object)
        except FileNotFoundError:
            raise BadData(f"There is no file {self.path}; give the path of a downloaded raw file.") from None
        except OSError as error:
            raise BadData(f"{self.path} can't be read: {error.strerror}.") from None
        try:
            self._open()
        except BaseException:
            self._disk.close()
            raise

    def _open(self) -> None:
        magic = self._disk.peek(4)[:4]
        self._text = gzip.GzipFile(fileobj=self._disk) if magic[:2] == b"\x1f\x8b" else self._disk
        self._pending = self._read()
        if magic == b"PK\x03\x04" or self._pending[257:262] == b"ustar":
            raise BadData(f"{self.path} is an archive; unpack it and give the text file inside.")
        if not self._pending:
            raise BadData(f"{self.path} is empty; a raw file has at least one line.")
        if self._pending.startswith(UTF_16):
            raise BadData(f"{self.path} is UTF-16, and text must be UTF-8: run `iconv -f UTF-16 -t UTF-8` on it.")

    def __enter__(self) -> LineFile:
        return self

    def __exit__(self, *_) -> None:
        self._disk.close()

    def _read(self) -> bytes:
        try:
            data = self._text.read(CHUNK)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            good = f"good up to line {self._read_lines}" if self._read_lines else "and not one line of it is good"
            raise BadData(f"{self.path} is a truncated or damaged gzip file, {good}; download it again.") from None
        except OSError as error:
            raise BadData(f"{self.path} can't be read: {error.strerror}.") from None
        self._read_lines += data.count(b"\n")
        self._advance(self._disk.tell() - self._told)
        self._told = self._disk.tell()
        return data

    def take(self, lines: int, most_bytes: float = MOST_BYTES) -> Block:
        """The next `lines` lines; fewer at the end of the file, or if they reach `most_bytes`."""
        parts, size = [self._pending], len(self._pending)
        while self._read_lines == self._taken or (self._read_lines - self._taken < lines and size < most_bytes):
            if self._read_lines == self._taken and size > MOST_BYTES:
                raise BadData(
                    f"{self.path}, line {self._taken + 1}, is longer than {MOST_BYTES >> 20} MiB; this is no text file."
                )
            chunk = self._read()
            if not chunk:
                parts.append(self._last_newline(parts))
                break
            parts.append(chunk)
            size += len(chunk)
        data = b"".join(parts)
        have = Block(self.path, self._taken + 1, data)
        cut = have.ends[min(lines, len(have)) - 1] + 1 if len(have) else 0
        self._pending = data[cut:]
        self._taken += min(lines, len(have))
        lines = data[:cut].removeprefix(UTF_8_MARK).replace(b"\n" + UTF_8_MARK, b"\n")  # joined files have marks inside
        return Block(self.path, have.first, lines.replace(b"\r\n", b"\n"))

    def _last_newline(self, parts: list[bytes]) -> bytes:
        """The newline to add if the file's last line has none; otherwise nothing."""
        last = next((p for p in reversed(parts) if p), b"\n")
        self._read_lines += not last.endswith(b"\n")
        return b"" if last.endswith(b"\n") else b"\n"

    def blocks(self, lines: int) -> Iterator[Block]:
        """The whole file, in blocks of `lines` lines."""
        while block := self.take(lines):
            yield block
