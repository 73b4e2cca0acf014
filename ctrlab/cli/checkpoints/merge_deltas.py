"""`ctrlab checkpoints merge-deltas`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import import_tensorflow
from ctrlab.cli.checkpoints.written import tell


def command(
    files: Annotated[list[Path], typer.Argument(help="Deltas that follow each other, in their order.", dir_okay=False)],
    out: Annotated[Path, typer.Option(help="The folder for the one file.", file_okay=False)],
) -> None:
    """Merge deltas that follow each other into one delta: in their place, it brings the save before them to the last of them.

    The folder for it is refused while a run has it open, or another of these commands writes into it.

    - `ctrlab checkpoints merge-deltas run/step-000002000.delta.safetensors run/step-000003000.delta.safetensors --out merged`
    """
    import_tensorflow()
    from ctrlab.embedding.formats.resharding import merge_delta_files

    tell(merge_delta_files(files, out))
