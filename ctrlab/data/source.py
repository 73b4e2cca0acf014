"""The input of a reader: files of one format, and which of their rows in which order."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ctrlab.errors import BadData, BadSchema, CtrlabError, choose
from ctrlab.schema import Column, Schema
from ctrlab.schema.frames import UTF_8_MARK

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

Files = str | os.PathLike | Iterable[str | os.PathLike]
FORMATS = {"csv": (".csv", ".tsv"), "tfrecord": (".tfrecord",), "tfrecord.gz": (".tfrecord.gz",), "parquet": (".parquet",)}


@dataclass(frozen=True)
class Source:
    """Files of one format in reading order, and the schema of their rows."""

    files: tuple[Path, ...]
    format: str
    schema: Schema
    lists: Literal["ragged", "text"] = "ragged"

    def unsplit(self, column: Column) -> bool:
        """Whether this list column stays text. Encoded lists never do, because text is taken for words that still need
        hashing."""
        return self.lists == "text" and hasattr(column, "separator") and not getattr(column, "encoded", False)


@dataclass(frozen=True)
class Order:
    """Selects and orders rows. It only uses row numbers, so the result is the same for every format."""

    shuffle: int
    seed: int | None
    epochs: int
    shard: tuple[int, int]
    start: int = 0

    def __post_init__(self):
        index, count = self.shard
        if not 0 <= index < count:
            raise CtrlabError(f"shard=(index, count) needs 0 <= index < count; received {self.shard}.")
        if self.shuffle < 0:
            raise CtrlabError(f"shuffle is a number of rows, 0 for none; received {self.shuffle}.")
        if self.epochs < 1 and self.epochs != -1:
            raise CtrlabError(f"epochs must be at least 1, or -1 for no end; received {self.epochs}.")

    def __call__(self, rows: tf.data.Dataset) -> tf.data.Dataset:
        """Selects and orders the elements of `rows`: lines, records or row numbers."""
        index, count = self.shard
        rows = rows.shard(count, index)
        if self.shuffle:
            rows = rows.shuffle(self.shuffle, seed=self.seed)
        return rows.repeat(self.epochs).skip(self.start)

    def may_take(self, rows: np.ndarray) -> np.ndarray:
        """Whether these rows, int64 [n], by their numbers in an epoch, may be among the selected ones: bool [n]."""
        index, count = self.shard
        once = self.epochs == 1 and not self.shuffle  # else those of `start` come again, or nobody knows which they were
        return (rows % count == index) & (rows // count >= (self.start if once else 0))


@dataclass(frozen=True)
class Reading:
    """The files of one call of `read`, and which of their rows it takes. `number` is part of the names of the graph nodes that
    decode them.
    """

    number: int
    source: Source
    order: Order

    @property
    def scope(self) -> str:
        return f"reading_{self.number}"


def require_schema(schema) -> None:
    """Raises BadSchema, with one sentence, if the argument is not a schema."""
    if not isinstance(schema, Schema):
        raise BadSchema(
            f"The columns of files are those of a Schema; received {schema!r:.100}: make one with Schema.infer(table)."
        )


def find_files(files: Files, format: str | None = None) -> tuple[tuple[Path, ...], str]:
    """The files to read, and their format. Parts without rows, as Spark writes them, are left out beside others."""
    if format is not None:
        choose("format", format, FORMATS)
    given = [Path(files)] if isinstance(files, str | os.PathLike) else [Path(file) for file in files]
    paths = [path for entry in given for path in (_files_in(entry, format) if entry.is_dir() else [entry])]
    if not paths:
        raise BadData("There are no files to read: the list of files is empty.")
    for path in paths:
        if not path.is_file():
            raise BadData(f"File {path} does not exist.")
    format = format or _common_format(paths)
    filled = tuple(path for path in paths if not _is_empty(path, format))
    if not filled:
        raise no_rows(paths)
    return filled, format


def no_rows(paths: Sequence[Path]) -> BadData:
    """The error for files without a row."""
    if len(paths) == 1:
        return BadData(f"File {paths[0]} is empty: it has no rows.")
    return BadData(f"Each of the {len(paths)} files from {paths[0]} to {paths[-1]} is empty: none has a row.")


def _is_empty(path: Path, format: str) -> bool:
    """Whether a file has no rows, as far as its first bytes tell. A Parquet file without bytes is none."""
    size = path.stat().st_size
    if format == "parquet":
        if not size:
            raise BadData(f"File {path} is empty: it has no rows, and no whole Parquet file has 0 bytes: write it again.")
        return False
    if format == "csv" and size == len(UTF_8_MARK):
        return path.read_bytes() == UTF_8_MARK
    if format == "tfrecord.gz" and size:
        with suppress(OSError, EOFError, zlib.error), gzip.open(path) as file:  # a damaged file is said when it is read
            return not file.read(1)
        return False
    return not size


def _files_in(folder: Path, format: str | None) -> list[Path]:
    endings = tuple(ending for name in ([format] if format else FORMATS) for ending in FORMATS[name])
    shown = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    paths = [path for path in shown if path.name.endswith(endings)]
    for path in shown:
        like = path.name.lower().removesuffix(".gz").endswith((*endings, ".pq")) or (path.is_dir() and "=" in path.name)
        if format is None and paths and like and path not in paths:
            raise BadData(
                f"{path} would be left out; parts of a folder lie in it and end with {', '.join(endings)}: name the files."
            )
    if not paths:
        raise BadData(f"Folder {folder} holds no file that ends with {', '.join(endings)}: name the files, or another folder.")
    return paths


def _common_format(paths: list[Path]) -> str:
    formats = {path: format_of(path) for path in paths}
    first = paths[0]
    for path, format in formats.items():
        if format != formats[first]:
            raise BadData(
                f"All files must be of one format; {first} is {formats[first]}, {path} is {format}: name one with format=."
            )
    return formats[first]


def format_of(path: Path) -> str:
    """The format of a file, by its suffix."""
    for format, endings in FORMATS.items():
        if path.name.endswith(endings):
            return format
    if path.name.endswith(".gz"):
        raise BadData(
            f"File {path} ends with .gz, and .tfrecord.gz is the only such format: unpack it, or convert it with "
            "`ctrlab.data.write`, which reads .csv.gz with a header."
        )
    known = ", ".join(ending for endings in FORMATS.values() for ending in endings)
    raise BadData(f"File {path} ends with none of {known}, which say its format: give it one of these endings.")
