"""The input of a reader: files of one format, and which of their rows in which order."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ctrlab.errors import BadData, BadSchema, CtrlabError, choose
from ctrlab.schema import Column, Schema

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
    """The files to read, and their format."""
    if format is not None:
        choose("format", format, FORMATS)
    given = [Path(files)] if isinstance(files, str | os.PathLike) else [Path(file) for file in files]
    paths = [path for entry in given for path in (_files_in(entry, format) if entry.is_dir() else [entry])]
    if not paths:
        raise BadData("There are no files to read: the list of files is empty.")
    for path in paths:
        if not path.is_file():
            raise BadData(f"File {path} does not exist.")
        if path.stat().st_size == 0:
            raise BadData(f"File {path} is empty: it has no rows.")
    return tuple(paths), format or _common_format(paths)


def _files_in(folder: Path, format: str | None) -> list[Path]:
    endings = tuple(ending for name in ([format] if format else FORMATS) for ending in FORMATS[name])
    paths = sorted(path for path in folder.iterdir() if path.name.endswith(endings) and not path.name.startswith((".", "_")))
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
    known = ", ".join(ending for endings in FORMATS.values() for ending in endings)
    raise BadData(f"File {path} ends with none of {known}, which say its format: give it one of these endings.")
