"""`ctrlab checkpoints`: merge, merge-deltas and reshard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import make_app

app = make_app("Put the files of a training's checkpoints together, or cut them into shards.")


@app.command("merge")
def checkpoints_merge(
    folder: Annotated[Path, typer.Argument(help="A folder of checkpoints; its last whole one is taken.", file_okay=False)],
    out: Annotated[Path, typer.Argument(help="The folder for the one file.", file_okay=False)],
) -> None:
    """Merge a full save and the deltas that follow it into one full save, which any run can resume from.

    The folder for it is refused while a run has it open, or another of these commands writes into it.

    - `ctrlab checkpoints merge run merged`
    """
    from ctrlab.commands import checkpoints

    checkpoints.merge(folder, out)


@app.command("merge-deltas")
def checkpoints_merge_deltas(
    files: Annotated[list[Path], typer.Argument(help="Deltas that follow each other, in their order.", dir_okay=False)],
    out: Annotated[Path, typer.Option(help="The folder for the one file.", file_okay=False)],
) -> None:
    """Merge deltas that follow each other into one delta: in their place, it brings the save before them to the last of them.

    The folder for it is refused while a run has it open, or another of these commands writes into it.

    - `ctrlab checkpoints merge-deltas run/step-000002000.delta.safetensors run/step-000003000.delta.safetensors --out merged`
    """
    from ctrlab.commands import checkpoints

    checkpoints.merge_deltas(files, out)


@app.command("reshard")
def checkpoints_reshard(
    files: Annotated[list[Path], typer.Argument(help="One full save, or all shards of one.", dir_okay=False)],
    out: Annotated[Path, typer.Option(help="The folder for the shards.", file_okay=False)],
    shards: Annotated[int, typer.Option(min=1, help="Into how many. So many files are open at once: see `ulimit -n`.")],
) -> None:
    """Cut embedding tables by their keys into another number of shards, a file each; everything else is in each of them.

    The folder for them is refused while a run has it open, or another of these commands writes into it.

    - `ctrlab checkpoints reshard run/step-000001000.safetensors --shards 4 --out four`
    """
    from ctrlab.commands import checkpoints

    checkpoints.reshard(files, out, shards)
