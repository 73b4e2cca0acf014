"""Atomic output files: each is written under a hidden name next to its path, and renamed when it is complete."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ctrlab.data.arrow import arrow_schema
from ctrlab.errors import CtrlabError
from ctrlab.paths import require_place
from ctrlab.schema import Schema

ENCODING = b"ctrlab.encoding"
GROUP_ROWS = 65_536
GROUP_BYTES = 64 << 20


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Reports in one sentence that `path` can't be written, and why (no space, no permission, ...)."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CtrlabError(
            f"{path} can't be written: {why}; nothing was kept of it. Free some space or give another path."
        ) from None


def sweep(folder: Path, name: str = "") -> None:
    """Removes hidden files that a `Replacement` left in a folder when its process was killed: those of one file name, or all."""
    for path in folder.glob(f".{glob.escape(name) or '*'}.*.partial"):
        of, number, _ = path.name.rsplit(".", 2)
        lives = number != str(os.getpid()) and Path("/proc", number).exists()
        if (not name or of == f".{name}") and number.isdecimal() and not lives:
            path.unlink(missing_ok=True)


class Replacement:
    """A binary file that replaces `path` when `keep` is called; without it nothing is left.

    If `path` is a link, the file to which it leads is replaced. A path that is not a file, such as a device, is refused before
    anything is written.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        self._place = Path(os.path.realpath(path)) if self.path.is_symlink() else self.path
        self._partial = self._place.with_name(f".{self._place.name}.{os.getpid()}.partial")

    def __enter__(self) -> Replacement:
        require_place(self._place)
        if self._place.exists() and not self._place.is_file():
            raise CtrlabError(f"What is written replaces a file; {self.path} is a device, a pipe or a socket: give another path.")
        sweep(self._place.parent, self._place.name)
        self.file = open(self._partial, "wb")
        return self

    def __exit__(self, *_) -> None:
        with suppress(OSError):  # a file that is only closed here is discarded
            self.file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        self.file.write(data)

    def keep(self) -> None:
        """Moves the file to its path. Its bytes are synced to disk before its name."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self._partial, self._place)


def encoding_of(schema: Schema) -> dict[bytes, bytes] | None:
    """The metadata of an encoded table or file: how its ids were made, and the sizes of the tables for which they were made."""
    made = {c.name: [c.encoding, c.buckets, *c.vocabulary] for c in schema.id_columns if c.encoded}
    return {ENCODING: json.dumps(made).encode()} if made else None


class ParquetFile(Replacement):
    """A Parquet file with the columns of a schema, in row groups of 65,536 rows (or 64 MiB), whatever the size of the tables."""

    def __init__(self, path: Path, schema: Schema):
        super().__init__(path)
        self._schema = arrow_schema(schema).with_metadata(encoding_of(schema))

    def __enter__(self) -> ParquetFile:
        super().__enter__()
        self._waiting = [self._schema.empty_table()]
        self._writer = pq.ParquetWriter(self.file, self._schema, compression="zstd")
        return self

    def __exit__(self, *error) -> None:
        with suppress(OSError):
            self._writer.close()
        super().__exit__(*error)

    def write(self, table: pa.Table) -> None:
        self._waiting.append(table)
        rows = sum(map(len, self._waiting))
        if rows >= GROUP_ROWS or sum(t.nbytes for t in self._waiting) >= GROUP_BYTES:
            whole = pa.concat_tables(self._waiting)
            full = rows - rows % GROUP_ROWS or rows
            self._write(whole.slice(0, full))
            self._waiting = [whole.slice(full)]

    def keep(self) -> None:
        self._write(pa.concat_tables(self._waiting))
        self._writer.close()
        super().keep()

    def _write(self, table: pa.Table) -> None:
        """Writes a row group with a single dictionary: if the dictionary changes inside one, Parquet falls back to plain text."""
        table = table.replace_schema_metadata(self._schema.metadata)
        self._writer.write_table(table.unify_dictionaries(), row_group_size=GROUP_ROWS)
