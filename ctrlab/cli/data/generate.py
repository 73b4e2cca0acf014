"""`ctrlab data generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import Format, ProfileOption
from ctrlab.cli.data.engine import EngineOption, engine_of
from ctrlab.errors import CtrlabError


def command(
    name: Annotated[str, typer.Argument(help="A data set, or all.")],
    rows: Annotated[int | None, typer.Option(min=1, max=10**12, help="Rows; else the profile's, with held-out ones.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; else the cache, where lessons and race find it.")] = None,
    format: Annotated[Format | None, typer.Option(help="How rows are stored; else by --out's ending, else parquet.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same rows.")] = 0,
    profile: ProfileOption = None,
    engine: EngineOption = "here",
) -> None:
    """Make rows with a planted model behind their labels, and say the AUC that this model itself comes to.

    - `ctrlab data generate all --profile lesson`
    - `ctrlab data generate criteo --rows 1000000 --out criteo.parquet`
    """
    from ctrlab import data, profiles

    names = list(data.SCHEMAS) if name == "all" else [name]
    if (rows is None) != (out is None) or (out and len(names) > 1):
        raise CtrlabError("A file of your own takes --rows and --out together, and one data set; else leave both out.")
    with engine_of(engine) as chosen:
        for each in names:
            if out:
                written = data.write(data.generate(each, rows, seed, chosen), data.schema(each), out, format, total=rows)
                print(f"{each}: {written:,} rows in {out}; {_ceiling(data.ceiling(each, rows, seed, chosen))}")
            else:
                files = data.prepare(each, profile=profiles.current(profile), format=format or "parquet", engine=chosen)
                print(f"{each}: {files.rows:,} rows and {files.test_rows:,} held out; {_ceiling(files.ceiling)}")


def _ceiling(auc: dict[str, float]) -> str:
    return "AUC's ceiling: " + ", ".join(f"{label} {value:.4f}" for label, value in auc.items())
