"""Arrays that an answer must pass to NumPy as a whole. A loop inside one C call, such as map(where.get, ids.tolist()), would
run no line.
"""

from __future__ import annotations

import numpy as np

from ctrlab.lessons.check import CheckFailed

FEW = 100
"""The most elements that Python may read one by one: one number per worker, for instance."""


class WholeArray(np.ndarray):
    """An array `x.view(WholeArray)` for an answer; what NumPy computes from it is one too, as long as NumPy keeps the class.

    Raises:
        CheckFailed: Python asks for more than `FEW` of its elements one by one.
    """

    def tolist(self):
        _require_few(self.size, "tolist()")
        return super().tolist()

    def __iter__(self):
        _require_few(len(self), "a loop, or map, list, set, dict or zip")
        return super().__iter__()


def _require_few(count: int, by: str) -> None:
    if count > FEW:
        raise CheckFailed(
            "Budget: NumPy does the work on whole arrays, and Python asks for no element.",
            expected="calls of NumPy",
            received=f"{by} on an array, {count:,} elements",
            next_step="np.unique, np.argsort, and an array as index do for all elements what a dictionary does for one",
        )
