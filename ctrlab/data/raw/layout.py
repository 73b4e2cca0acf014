"""What a data set says of its raw files: where they lie, and what reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ctrlab.data.raw.intake import Intake
from ctrlab.features import Schema


@dataclass(frozen=True)
class Layout:
    """Where real data lie below the folder of `CTRLAB_REAL_DATA`: patterns of files, each plain or with .gz.

    Attributes:
        train: one file of each pattern is needed.
        test: the official test rows; without them one row of `held_out` is held out, by a fixed hash of its number.
    """

    train: tuple[str, ...]
    test: tuple[str, ...] = ()
    held_out: int = 5

    @property
    def patterns(self) -> tuple[str, ...]:
        return self.train + self.test


@dataclass(frozen=True)
class Raw:
    """The raw files of a data set.

    Attributes:
        schema: of the rows that they become.
        layouts: where they may lie; the first is taken of which every pattern is there.
        tables: (files, intake, schema) -> typed tables of the schema, `delimited` for example.
        together: how many neighbouring rows a split must not part.
    """

    schema: Schema
    layouts: tuple[Layout, ...]
    tables: Callable[[Sequence[Path], Intake, Schema], Iterator[pa.Table]]
    together: int = 1
