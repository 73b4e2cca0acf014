"""Raw columns in the form that the references of the parsing ops take."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.schema import Column


def cells(values) -> Iterable:
    """One cell per row: a text (bytes), a number, or a list of either, from an array or from `values` and `row_splits`."""
    if not hasattr(values, "row_splits"):
        return np.asarray(values).tolist()
    flat, splits = np.asarray(values.values).tolist(), np.asarray(values.row_splits).tolist()
    return [flat[begin:end] for begin, end in itertools.pairwise(splits)]


def as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def is_list(column: Column) -> bool:
    return hasattr(column, "separator")


def agree(columns: Sequence[Column], values: Sequence) -> None:
    """Checks for one entry of values per column."""
    if not len(columns) == len(values) > 0:
        raise CtrlabError(
            "There must be one entry of values per column, and at least one column; "
            f"received {len(values)} for {len(columns)} columns."
        )
