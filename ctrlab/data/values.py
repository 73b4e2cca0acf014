"""What a number in a column may be: a label 0 or 1 (a soft one between), any other finite. What is missing is null, not NaN."""

from __future__ import annotations

import numpy as np

from ctrlab.features import Column, Label


def rule(column: Column) -> str:
    """What must hold for a label's or a numeric column's values, with the cure, after "must"."""
    if not isinstance(column, Label):
        return "hold finite numbers, and nothing where one is missing"
    if column.soft:
        return "lie in [0, 1]"
    return f"be 0 or 1 (for shares say Label({column.name!r}, soft=True))"


def bad(values: np.ndarray, column: Column) -> np.ndarray:
    """Which values break the rule: float [n] -> bool [n]."""
    if not isinstance(column, Label):
        return ~np.isfinite(values)
    if column.soft:
        return ~((values >= 0) & (values <= 1))
    return (values != 0) & (values != 1)


def first_bad(values: np.ndarray, column: Column) -> int | None:
    """The place of the first value that breaks the rule; None if there is none."""
    found = bad(values, column)
    return int(np.argmax(found)) if found.any() else None
