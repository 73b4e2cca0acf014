"""`ctrlab train`, `ctrlab race` and `ctrlab tune`: what trains models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import FormatOption, JsonOption, ProfileOption, SourceOption
from ctrlab.errors import CtrlabError


def train(
    model: Annotated[str, typer.Argument(help="wdl, deepfm, dlrm, din, dien or mmoe.")],
    optimizations: Annotated[str, typer.Option(help="none, all, all+results, or names joined by commas.")] = "none",
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training rows.")] = 1,
    data: SourceOption = "generated",
    format: FormatOption = "parquet",
    profile: ProfileOption = None,
    seed: Annotated[int, typer.Option(help="Of the first weights and the shuffling.")] = 2021,
    save: Annotated[Path | None, typer.Option(help="Write the trained model to this .keras file.", dir_okay=False)] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Save the training's state in this folder.", file_okay=False)] = None,
    every: Annotated[int | None, typer.Option(min=1, help="Save after so many steps; else only at the end.")] = None,
    full_every: Annotated[int | None, typer.Option(min=1, help="Every so many saves: embedding tables whole.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's last whole checkpoint.")] = False,
) -> None:
    """Train one model and hold its AUC against the best that is possible on its data.

    - `ctrlab train deepfm --optimizations all --save deepfm.keras`
    - `ctrlab train wdl --optimizations all --checkpoint run --every 1000 --resume`
    - `ctrlab train din --data real --epochs 2`
    """
    from ctrlab.commands import import_tensorflow

    if checkpoint is None and (every or full_every or resume):
        raise CtrlabError("--every, --full-every and --resume are about checkpoints; give their folder with --checkpoint.")
    import_tensorflow()
    from ctrlab.commands.train import Saving, run

    saving = Saving(checkpoint, every, full_every or 1, resume) if checkpoint else None
    run(model, optimizations, epochs, data, format, profile, seed, save, saving)


def race(
    models: Annotated[str, typer.Option(help="all, or names joined by commas.")] = "all",
    optimizations: Annotated[
        str, typer.Option(help="Sets joined by commas; the rungs of one set are joined by +. The baseline always races.")
    ] = "none,all",
    profile: ProfileOption = None,
    data: SourceOption = "generated",
    json_path: JsonOption = None,
    html: Annotated[Path | None, typer.Option(help="Write a report that needs nothing else to be read.", dir_okay=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted race of the same options.")] = False,
) -> None:
    """Train the contest's six models against the clock, each set of optimizations against the baseline.

    The score is the contest's: training seconds at its numbers of steps, added up. A set whose AUC falls below the baseline's
    by more than three standard deviations over seeds does not count. Interrupted, the race keeps the models that are done.

    - `ctrlab race --models deepfm --profile tiny`
    - `ctrlab race --optimizations none,indicator,all --html race.html`
    - `ctrlab race --data real --json race.json --resume`
    """
    from ctrlab.commands.race import run

    run(models, optimizations, profile, data, json_path, html, resume)


def tune(
    model: Annotated[str, typer.Argument(help="wdl, deepfm, dlrm, din, dien or mmoe.")],
    budget: Annotated[float, typer.Option(min=1, help="Seconds that the search may take.")] = 120.0,
    optimizations: Annotated[str, typer.Option(help="The set that the model will be trained with.")] = "all",
    profile: ProfileOption = None,
    html: Annotated[Path | None, typer.Option(help="Write the heat maps to this file.", dir_okay=False)] = None,
) -> None:
    """Find the threads and buffers that train a model fastest on this machine, and keep them for the rung "threads".

    - `ctrlab tune dlrm --budget 300`
    """
    from ctrlab.commands import import_tensorflow

    import_tensorflow()
    from ctrlab.commands.tune import run

    run(model, optimizations, budget, profile, html)
