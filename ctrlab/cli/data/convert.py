"""`ctrlab data convert`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.data.engine import EngineOption, engine_of


def command(
    name: Annotated[str, typer.Argument(help="The data set that the files are of.")],
    files: Annotated[list[Path], typer.Argument(help="The files as they were downloaded, plain or gzip.")],
    out: Annotated[Path, typer.Option(help="The file to write: .parquet, .csv, .tsv, .tfrecord or .tfrecord.gz.")],
    engine: EngineOption = "here",
) -> None:
    """Convert raw files to one that models train on. Rows that break the format go to a rejects file beside it, with the reason.

    - `ctrlab data convert criteo train.txt.gz --out criteo.parquet`
    - `ctrlab data convert criteo train.txt.gz --out criteo.parquet --engine ray`
    """
    from ctrlab.data.convert import convert

    with engine_of(engine) as chosen:
        counts = convert(name, files, out, engine=chosen)
    print(f"{out}: {counts.written:,} rows of {counts.read:,} that were read")
    if counts.rejected:
        print(f"{out}.rejects.tsv: {counts.rejected:,} rejected, each with its file, line and reason")
        for reason, count in counts.reasons.most_common():
            print(f"  {count:,}: {reason}")
