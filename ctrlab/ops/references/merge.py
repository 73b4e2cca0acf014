"""The definition of `ctrlab.ops.merge`, in NumPy, float64."""

from __future__ import annotations

import numpy as np

from ctrlab.ops.references.arrays import Slices, normal
from ctrlab.profiling.work import Work


def reference(gradient: Slices, shape=None) -> Slices:
    """The definition in NumPy: ids ascending, each once, and float64 sums of their rows.

    >>> reference(Slices(np.array([7, 3, 7]), np.array([[1.0], [2.0], [4.0]])))
    Slices(indices=array([3, 7]), values=array([[2.],
           [5.]]))
    """
    unique, place = np.unique(gradient.indices, return_inverse=True)
    sums = np.zeros((len(unique), *gradient.values.shape[1:]))
    np.add.at(sums, place, gradient.values.astype(np.float64))
    return Slices(unique, sums)


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(ids, *shape):
        return Slices(np.asarray(ids, np.int64), normal(rng, len(ids), *shape[1:])), shape

    return {
        "random": case(rng.integers(0, 6, 9), 9, 3),
        "one id many times": case([4] * 70, 9, 3),
        "all differ": case([8, 0, 3], 9, 16),
        "rows of more than one axis": case([1, 0, 1], 2, 3, 4),
        "no ids": case([], 9, 3),
    }


def work(ids: float, distinct: float, width: int) -> Work:
    """`ids` rows read and added to `distinct` sums, which are written; ids are read and written."""
    return Work(flops=ids * width, bytes=8.0 * (ids + distinct) + 4.0 * (ids + distinct) * width)
