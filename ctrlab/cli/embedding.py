"""`ctrlab embedding`: what the embedding variables of a training hold."""

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

    The Parquet file has of each key: feature, id, norm, frequency, last step, tier, whether it was admitted, and its bytes.

    - `ctrlab embedding analyze run`
    - `ctrlab embedding analyze run --feature item_id --html item_id.html --out item_id.parquet`
    """
    from ctrlab.commands.analyze import run

    run(checkpoint, out, feature, html, json_path)
