"""What a number in a column may be: a label 0 or 1 (a soft one between), an id one of its table, any other finite.

What is missing is null, not NaN.
"""

from __future__ import annotations

import numpy as np

from ctrlab.schema import Column, IdColumn, Label


def rule(column: Column) -> str:
    """What must hold for a column's numbers, with the cure, after "must"."""
    if isinstance(column, IdColumn):
        return f"lie in [{least_id(column)}, {column.buckets})"
    if not isinstance(column, Label):
        return "hold finite numbers, and nothing where one is missing"
    if column.soft:
        return "lie in [0, 1]"
    return f"be 0 or 1 (for shares say Label({column.name!r}, soft=True))"


def least_id(column: IdColumn) -> int:
    """-1, "unknown", is what `ctrlab.data.encode` makes of a word that is not in the vocabulary."""
    return -1 if column.encoding == "vocabulary" else 0


def bad(values: np.ndarray, column: Column) -> np.ndarray:
    """Which values break the rule: float, or int for ids, [n] -> bool [n]."""
    if isinstance(column, IdColumn):
        return (values < least_id(column)) | (values >= column.buckets)
    if not isinstance(column, Label):
        return ~np.isfinite(values)
    if column.soft:
        return ~((values >= 0) & (values <= 1))
    return (values != 0) & (values != 1)


def first_bad(values: np.ndarray, column: Column) -> int | None:
    """The place of the first value that breaks the rule; None if there is none."""
    found = bad(values, column)
    return int(np.argmax(found)) if found.any() else None
