"""The rows that were salvaged from an embedding variable's storage, as a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from ctrlab.errors import BadData

COUNTS = 8
"""Bytes of frequency and last step, at a row's end."""


def table(keys: np.ndarray, rows: np.ndarray, folder: Path) -> pa.Table:
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
