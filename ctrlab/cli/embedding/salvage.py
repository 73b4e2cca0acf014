"""`ctrlab embedding salvage`: the whole rows of a damaged storage, as a Parquet file; TensorFlow is not needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from ctrlab.cli.app import console
from ctrlab.errors import CtrlabError
from ctrlab.paths import require_place


def command(
    folder: Annotated[Path, typer.Argument(help="Of one embedding variable, below the folder of --storage.", file_okay=False)],
    out: Annotated[Path, typer.Option(help="Write the rows to this Parquet file.", dir_okay=False)],
) -> None:
    """Read what is whole of a damaged storage that has no copy, and say what is lost. The storage stays as it is.

    Write the rows to a place outside of the folder of --storage: beside a table's storage, the next run would refuse it for them.

    The Parquet file has of each key its numbers (its vector, then the optimizer's slots), frequency and last step. A row may be
    older than the one that was lost, and one that was removed may be back.

    - `ctrlab embedding salvage rows/item_id/1 --out rows.parquet`
    """
    import pyarrow.parquet as pq

    from ctrlab.data.outputs import Replacement, clear_errors
    from ctrlab.embedding import salvaged
    from ctrlab.embedding.store import segments

    require_place(out)
    if folder.resolve() in out.resolve().parents:
        raise CtrlabError(f"A damaged storage stays as it is; {out} would be in it: give a path outside of {folder}.")
    screen = console()
    with Progress(console=screen) as progress:
        task = progress.add_task(f"Reading {folder}", total=None)
        keys, rows, problems = segments.salvage(folder, lambda done, of: progress.update(task, completed=done, total=of))
    for problem in problems:
        screen.print(f"Damaged: {problem}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    with clear_errors(out), Replacement(out) as file:
        pq.write_table(salvaged.table(keys, rows, folder), file.file, compression="zstd")
        file.keep()
    damage = "Nothing was damaged" if not problems else "Rows may be older than those that are lost, and removed ones be back"
    screen.print(f"{out}: {len(keys):,} rows. {damage}.", markup=False, highlight=False, soft_wrap=True)
