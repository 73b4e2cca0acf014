"""The rules for numbers in columns: a label is 0 or 1 (a soft one lies between), an id lies in its table, any other number is
finite. A missing value is null, not NaN.
"""

from __future__ import annotations

import numpy as np

from ctrlab.schema import Column, IdColumn, Label


def rule(column: Column) -> str:
    """The rule for a column's numbers, and the cure, as the end of a sentence after "must"."""
    if isinstance(column, IdColumn):
        return f"lie in [{least_id(column)}, {column.buckets})"
    if not isinstance(column, Label):
        return "hold finite numbers, and nothing where one is missing"
    if column.soft:
        return "lie in [0, 1]"
    return f"be 0 or 1 (for shares say Label({column.name!r}, soft=True))"


def least_id(column: IdColumn) -> int:
    """The least valid id of a column. A vocabulary has -1, "unknown": `ctrlab.data.encode` gives it to words outside it."""
    return -1 if column.encoding == "vocabulary" else 0


def bad(values: np.ndarray, column: Column) -> np.ndarray:
    """Marks the values that break the rule: float, or int for ids, [n] -> bool [n]."""
    if isinstance(column, IdColumn):
        return (values < least_id(column)) | (values >= column.buckets)
    if not isinstance(column, Label):
        return ~np.isfinite(values)
    if column.soft:
        return ~((values >= 0) & (values <= 1))
    return (values != 0) & (values != 1)


def first_bad(values: np.ndarray, column: Column) -> int | None:
    """The index of the first value that breaks the rule; None if there is none."""
    found = bad(values, column)
    return int(np.argmax(found)) if found.any() else None
