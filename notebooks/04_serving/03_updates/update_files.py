"""Which table rows an update holds, read from its file: for the lesson on updates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from ctrlab.serving.weights import HEAD, ROWS


def changed_rows(path: Path) -> dict[int, np.ndarray]:
    """{number of a table: int64 ids of its rows in an update}, from a file that `ctrlab.serving.weights` wrote."""
    found: dict[int, list[np.ndarray]] = {}
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        kind, table, _, count = HEAD.unpack_from(record)
        if kind == ROWS:
            found.setdefault(table, []).append(np.frombuffer(record, np.int64, count, HEAD.size))
    return {table: np.concatenate(ids) for table, ids in found.items()}
