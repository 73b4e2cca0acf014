"""How a data set describes its raw files: their location and their reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ctrlab.data.raw.intake import Intake
from ctrlab.schema import Schema


@dataclass(frozen=True)
class Layout:
    """Locations of real data below the folder `CTRLAB_REAL_DATA`: file patterns, each plain or with .gz.

    Attributes:
        train: every pattern needs a file.
        test: the official test rows; without them one row in `held_out` is held out, by a fixed hash of its number.
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
        schema: the schema of the converted rows.
        layouts: possible locations; the first is used for which every pattern has a file.
        tables: (files, intake, schema) -> typed tables of the schema; for example `delimited`.
        together: number of neighbouring rows that a split must keep together.
    """

    schema: Schema
    layouts: tuple[Layout, ...]
    tables: Callable[[Sequence[Path], Intake, Schema], Iterator[pa.Table]]
    together: int = 1
