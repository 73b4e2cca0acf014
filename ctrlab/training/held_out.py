"""The last training rows as validation rows: two Parquet files of the rows of a data set's training files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ctrlab.data import DataFiles
from ctrlab.errors import BadData, CtrlabError

ROWS = 65_536
"""Of a row group, and so of what is in memory at once."""


def hold_out(files: DataFiles, fraction: float, folder: Path) -> tuple[DataFiles, Path]:
    """The files with only the first training rows, and a file of the last ones, both written to `folder`.

    Args:
        fraction: of the training rows, in the order of the files, that are held out; above 0 and below 1.
    Raises:
        CtrlabError: another fraction; the files are not Parquet. BadData: a part would have no rows.
    """
    if not 0 < fraction < 1:
        raise CtrlabError(f"The fraction that is held out is above 0 and below 1; received {fraction}.")
    if files.format != "parquet":
        raise CtrlabError(f"Validation rows are taken from Parquet files; the format is {files.format}: choose parquet.")
    first = files.rows - round(fraction * files.rows)
    if not 0 < first < files.rows:
        raise BadData(
            f"Both parts of a split have rows; of the {files.rows} of {files.name}, {fraction:g} leaves {first} to train on."
        )
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
