"""`ctrlab embedding salvage`: the whole rows of a damaged storage, as a Parquet file; TensorFlow is not needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import Progress

from ctrlab.data.outputs import Replacement, clear_errors
from ctrlab.embedding.store import segments
from ctrlab.errors import BadData, CtrlabError
from ctrlab.paths import require_place

COUNTS = 8
"""Bytes of frequency and last step, at a row's end."""


def run(folder: Path, out: Path) -> None:
    """Reads, says what is lost, writes.

    Raises:
        BadData: no store, or no rows of an embedding variable. CtrlabError: the file can't be written, or would be in the store.
    """
    require_place(out)
    if folder.resolve() in out.resolve().parents:
        raise CtrlabError(f"A damaged storage stays as it is; {out} would be in it: give a path outside of {folder}.")
    console = Console()
    with Progress(console=console) as progress:
        task = progress.add_task(f"Reading {folder}", total=None)
        keys, rows, problems = segments.salvage(folder, lambda done, of: progress.update(task, completed=done, total=of))
    for problem in problems:
        console.print(f"Damaged: {problem}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    with clear_errors(out), Replacement(out) as file:
        pq.write_table(table_of(keys, rows, folder), file.file, compression="zstd")
        file.keep()
    damage = "Nothing was damaged" if not problems else "Rows may be older than those that are lost, and removed ones be back"
    console.print(f"{out}: {len(keys):,} rows. {damage}.", markup=False, highlight=False, soft_wrap=True)


def table_of(keys: np.ndarray, rows: np.ndarray, folder: Path) -> pa.Table:
    """Keys int64 [n], and rows uint8 [n, row bytes]: float32 numbers, then frequency and last step, uint32 each."""
    width = rows.shape[1] - COUNTS
    if len(keys) and (width <= 0 or width % 4):
        raise BadData(
            f"A row of an embedding variable is numbers of 4 bytes and 8 of counts; {folder} has {rows.shape[1]} bytes."
        )
    numbers, counts = np.hsplit(rows, [max(0, width)])
    frequency, last_step = np.ascontiguousarray(counts).view("<u4").reshape(len(keys), -1).T if len(keys) else ([], [])
    values = pa.array(np.ascontiguousarray(numbers).view("<f4").ravel())
    return pa.table(
        {
            "key": keys,
            "numbers": pa.FixedSizeListArray.from_arrays(values, max(1, width // 4)),
            "frequency": pa.array(frequency, pa.uint32()),
            "last_step": pa.array(last_step, pa.uint32()),
        }
    )
