"""`ctrlab checkpoints merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import import_tensorflow
from ctrlab.cli.checkpoints.written import tell


def command(
    folder: Annotated[Path, typer.Argument(help="A folder of checkpoints; its last whole one is taken.", file_okay=False)],
    out: Annotated[Path, typer.Argument(help="The folder for the one file.", file_okay=False)],
) -> None:
    """Merge a full save and the deltas that follow it into one full save, which any run can resume from.

    Of several workers' saves it makes one for `ctrlab export`; their training goes on from their own, by `--workers`. The folder
    for it is refused while a run has it open, or another of these commands writes into it.

    - `ctrlab checkpoints merge run merged`
    """
    import_tensorflow()
    from ctrlab.distributed.manifest import merge_workers
    from ctrlab.embedding.formats.resharding import merge_chain
    from ctrlab.embedding.formats.saves import OF_WORKERS

    tell((merge_workers if (folder / OF_WORKERS).exists() else merge_chain)(folder, out))
