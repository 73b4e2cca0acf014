"""Columns of ids in references: arrays, tensors or ragged tensors, distinguished without importing TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctrlab.errors import CtrlabError

Ids = Any
"""int64 [B], or ragged [B, (L)]: anything with `values` and `row_splits`, such as a tf.RaggedTensor."""


def ragged(column: Ids) -> bool:
    return hasattr(column, "row_splits")


def flat(column: Ids) -> np.ndarray:
    """The column's ids, or numbers, one after another."""
    return np.asarray(column.values if ragged(column) else column)


def splits_of(column: Ids) -> np.ndarray:
    """int64 [B + 1]: row b has flat[splits[b] : splits[b + 1]]."""
    return np.asarray(column.row_splits, np.int64) if ragged(column) else np.arange(len(column) + 1)


def require_int64(columns) -> None:
    """Raises if a column's ids have another dtype."""
    for c, ids in enumerate(columns):
        if ids.dtype != np.int64:
            raise CtrlabError(f"Ids must be int64; received {ids.dtype.name} in column {c}.")
