"""The definition of `ctrlab.ops.parsing.sequence_length`, in NumPy."""

from __future__ import annotations

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.ops.references.arrays import Sparse
from ctrlab.profiling.work import Work


def reference(sparse: Sparse) -> np.ndarray:
    """The definition in NumPy.

    >>> reference(Sparse([[0, 0], [0, 2]], ["a", "b"], [2, 5]))
    array([3, 0])
    """
    rows, columns = np.asarray(sparse.dense_shape)
    lengths = np.zeros(rows, np.int64)
    for k, (row, column) in enumerate(np.asarray(sparse.indices)):
        if not (0 <= row < rows and 0 <= column < columns):
            raise CtrlabError(f"Indices must lie in [{rows}, {columns}]; received [{row}, {column}] at {k}.")
        lengths[row] = max(lengths[row], column + 1)
    return lengths


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(indices, *shape):
        indices = np.reshape(np.array(indices, np.int64), (-1, 2))
        return (Sparse(indices, np.ones(len(indices)), np.array(shape, np.int64)),)

    return {
        "random": case(rng.integers(0, (6, 9), (20, 2)), 6, 9),
        "a column left out": case([[0, 0], [0, 2]], 1, 5),
        "not the first column": case([[0, 1]], 2, 5),
        "the last place": case([[2, 4]], 3, 5),
        "any order": case([[1, 3], [0, 0], [1, 1]], 2, 5),
        "the same place twice": case([[0, 1], [0, 1]], 1, 5),
        "no value at all": case([], 3, 5),
        "no columns": case([], 2, 0),
        "no rows": case([], 0, 5),
    }


def work(values: float, rows: float) -> Work:
    """Two indices are read per value, one length is written per row."""
    return Work(bytes=16.0 * values + 8.0 * rows)
