"""`ctrlab embedding`: what the embedding variables of a training hold, and what is whole of a damaged storage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import JsonOption, make_app

app = make_app("Look into the embedding variables of a training.")


@app.command("analyze")
def analyze(
    checkpoint: Annotated[list[Path], typer.Argument(help="A folder of checkpoints, a save in it, or all shards of one.")],
    out: Annotated[Path | None, typer.Option(help="Write a row for each key to this Parquet file.", dir_okay=False)] = None,
    feature: Annotated[str | None, typer.Option(help="Of this table only.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the plots to this file.", dir_okay=False)] = None,
    json_path: JsonOption = None,
) -> None:
    """Say what each table holds and takes, what other thresholds of admission would have kept, and how old its keys are.

    It also says which thresholds of admission and eviction keep a share of the traffic.

    The Parquet file has of each key: feature, id, norm, frequency, last step, tier, whether it was admitted, and its bytes.

    - `ctrlab embedding analyze run`
    - `ctrlab embedding analyze run --feature item_id --html item_id.html --out item_id.parquet`
    """
    from ctrlab.commands.analyze import run

    run(checkpoint, out, feature, html, json_path)


@app.command("salvage")
def salvage(
    folder: Annotated[Path, typer.Argument(help="Of one embedding variable, below the folder of --storage.", file_okay=False)],
    out: Annotated[Path, typer.Option(help="Write the rows to this Parquet file.", dir_okay=False)],
) -> None:
    """Read what is whole of a damaged storage that has no copy, and say what is lost. The storage stays as it is.

    Write the rows to a place outside of the folder of --storage: beside a table's storage, the next run would refuse it for them.

    The Parquet file has of each key its numbers (its vector, then the optimizer's slots), frequency and last step. A row may be
    older than the one that was lost, and one that was removed may be back.

    - `ctrlab embedding salvage rows/item_id/1 --out rows.parquet`
    """
    from ctrlab.commands.salvage import run

    run(folder, out)
