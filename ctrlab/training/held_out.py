"""Holds out the last training rows for validation: splits the rows of a data set's training files into two Parquet files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ctrlab.data import DataFiles
from ctrlab.data.splits import held_out_rows
from ctrlab.errors import CtrlabError

ROWS = 65_536
"""Rows per row group, and so the most rows in memory at once."""


def hold_out(files: DataFiles, fraction: float, folder: Path) -> tuple[DataFiles, Path]:
    """The files with only the first training rows, and a file of the last ones, both written to `folder`.

    Args:
        fraction: the share of the training rows, the last ones in the order of the files, that is held out; above 0 and below 1.
    Raises:
        CtrlabError: the fraction is out of range; the files are not Parquet. BadData: a part would have no rows.
    """
    if files.format != "parquet":
        raise CtrlabError(f"Validation rows are taken from Parquet files; the format is {files.format}: choose parquet.")
    first = files.rows - held_out_rows(files.rows, fraction, files.name)
    paths, done = [folder / "train.parquet", folder / "validation.parquet"], 0
    schema = pq.read_schema(files.train[0])
    with pq.ParquetWriter(paths[0], schema) as train, pq.ParquetWriter(paths[1], schema) as validation:
        for path in files.train:
            for batch in pq.ParquetFile(path).iter_batches(ROWS):
                left = max(0, first - done)
                for writer, part in ((train, batch.slice(0, left)), (validation, batch.slice(left))):
                    if len(part):
                        writer.write_table(pa.Table.from_batches([part], schema))
                done += len(batch)
    return dataclasses.replace(files, train=(paths[0],), rows=first), paths[1]
