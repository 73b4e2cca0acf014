"""`ctrlab checkpoints reshard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.checkpoints.written import tell


def command(
    files: Annotated[list[Path], typer.Argument(help="One full save, or all shards of one.", dir_okay=False)],
    out: Annotated[Path, typer.Option(help="The folder for the shards.", file_okay=False)],
    shards: Annotated[int, typer.Option(min=1, help="Into how many. So many files are open at once: see `ulimit -n`.")],
) -> None:
    """Cut embedding tables by their keys into another number of shards, a file each; everything else is in each of them.

    The folder for them is refused while a run has it open, or another of these commands writes into it.

    - `ctrlab checkpoints reshard run/step-000001000.safetensors --shards 4 --out four`
    """
    from ctrlab.embedding.formats.resharding import reshard

    tell(*reshard(files, shards, out))
