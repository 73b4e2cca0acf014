"""`ctrlab data statistics`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    name: Annotated[str, typer.Argument(help="The data set that the file is of.")],
    file: Annotated[Path, typer.Argument(help="A Parquet file, as `ctrlab data convert` writes it.")],
) -> None:
    """Measure what the generators follow: how ids are spread, where numbers lie, how long lists are. Prints JSON.

    - `ctrlab data statistics criteo criteo.parquet > criteo.json`
    """
    from ctrlab.data.measure import measure_file

    print(measure_file(name, file).to_text(), end="")
