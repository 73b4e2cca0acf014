"""Makes the files of a data set: generates, converts, or copies to another format. `cache` decides when and where.

All code that this module imports is part of the recipe in the cache's key.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from ctrlab.data import sets
from ctrlab.data.convert import convert_real
from ctrlab.data.encode import encode
from ctrlab.data.engine import Engine
from ctrlab.data.source import FORMATS
from ctrlab.data.writer import counted, write
from ctrlab.schema import Schema

HELD_OUT = 5  # one test row per this many train rows
COPY_ROWS = 32_768


def generated(name: str, rows: int, seed: int, out: Path, progress: bool, engine: Engine = map) -> dict:
    """Writes `rows` rows to `out`/train.parquet and the next fifth as many to test.parquet. Returns counts and ceiling."""
    schema, test_rows = sets.schema(name), -(-rows // HELD_OUT)
    stream = counted(sets.generate(name, rows + test_rows, seed, engine), f"Generate {name}", progress, rows + test_rows)
    rest: list[pa.Table] = []
    write(_first(stream, rows, rest), schema, out / "train.parquet", progress=False)
    write(chain(rest, stream), schema, out / "test.parquet", progress=False)
    ceiling = sets.ceiling(name, rows + test_rows, seed, engine)
    return {"rows": rows, "test_rows": test_rows, "ceiling": ceiling, "rejected": 0}


def _first(stream: Iterator[pa.Table], rows: int, rest: list[pa.Table]) -> Iterator[pa.Table]:
    """Yields the first `rows` rows; the rest of the last table goes to `rest`."""
    while rows:
        table = next(stream)
        yield table.slice(0, rows)
        if len(table) > rows:
            rest.append(table.slice(rows))
        rows -= min(rows, len(table))


def converted(name: str, root: str, out: Path, progress: bool, engine: Engine = map) -> dict:
    """Converts real data to `out`/train.parquet and test.parquet. Returns counts; the ceiling is unknown."""
    rejected = convert_real(name, root, out, progress=progress, engine=engine).rejected
    rows, test_rows = (parquet.read_metadata(out / f"{part}.parquet").num_rows for part in ("train", "test"))
    return {"rows": rows, "test_rows": test_rows, "ceiling": None, "rejected": rejected}


def copied(parts: dict[Path, int], schema: Schema, format: str, encoded: bool, out: Path, progress: bool) -> None:
    """Writes Parquet files in another format, or encoded for the tables of `schema`.

    Args:
        parts: the files, with their number of rows.
    """
    for path, rows in parts.items():
        batches = parquet.ParquetFile(path).iter_batches(COPY_ROWS)
        tables = counted((pa.Table.from_batches([b]) for b in batches), f"Write {path.stem} as {format}", progress, rows)
        if encoded:
            tables = encode(tables, schema)
        write(tables, schema.encoded() if encoded else schema, out / (path.stem + FORMATS[format][0]), format, progress=False)
