"""`ctrlab data`: list, generate, convert, statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import Format, ProfileOption, make_app

app = make_app("Make, convert and look at data sets.")


@app.command("list")
def list_data() -> None:
    """The data sets: their columns, their labels, and the models that train on them."""
    from ctrlab.commands import data

    data.show()


@app.command("generate")
def generate_data(
    name: Annotated[str, typer.Argument(help="A data set, or all.")],
    rows: Annotated[int | None, typer.Option(min=1, help="Rows; else the profile's, with held-out rows apart.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; else the cache, where lessons and race find it.")] = None,
    format: Annotated[Format | None, typer.Option(help="How rows are stored; else by --out's ending, else parquet.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same rows.")] = 0,
    profile: ProfileOption = None,
) -> None:
    """Make rows with a planted model behind their labels, and say the AUC that this model itself comes to.

    - `ctrlab data generate all --profile lesson`
    - `ctrlab data generate criteo --rows 1000000 --out criteo.parquet`
    """
    from ctrlab.commands import data

    data.generate(name, rows, out, format, seed, profile)


@app.command("convert")
def convert_data(
    name: Annotated[str, typer.Argument(help="The data set that the files are of.")],
    files: Annotated[list[Path], typer.Argument(help="The files as they were downloaded, plain or gzip.")],
    out: Annotated[Path, typer.Option(help="The Parquet file to write.")],
) -> None:
    """Convert raw files to Parquet. Rows that break the format go to a rejects file beside it, with file, line and reason.

    - `ctrlab data convert criteo train.txt.gz --out criteo.parquet`
    """
    from ctrlab.commands import data

    data.convert(name, files, out)


@app.command("statistics")
def data_statistics(
    name: Annotated[str, typer.Argument(help="The data set that the file is of.")],
    file: Annotated[Path, typer.Argument(help="A Parquet file, as `ctrlab data convert` writes it.")],
) -> None:
    """Measure what the generators follow: how ids are spread, where numbers lie, how long lists are. Prints JSON.

    - `ctrlab data statistics criteo criteo.parquet > criteo.json`
    """
    from ctrlab.commands import data

    data.statistics(name, file)
