"""The definition of `ctrlab.ops.factorization_machine`, in NumPy, float64."""

from __future__ import annotations

import numpy as np

from ctrlab.ops.references.arrays import normal
from ctrlab.profiling.work import Work


def reference(fields, dim: int) -> np.ndarray:
    """The definition in NumPy, float64 [B, D].

    >>> reference(np.array([[1.0, 10, 2, 20, 3, 30]]), dim=2)  # 1 * 2 + 1 * 3 + 2 * 3, ...
    array([[  11., 1100.]])
    """
    v = _vectors(fields, dim)
    out = np.zeros((v.shape[0], dim))
    for i in range(v.shape[1]):
        for j in range(i):
            out += v[:, i] * v[:, j]
    return out


def reference_gradient(fields, dim: int, d_out) -> np.ndarray:
    """d_fields, float64 [B, F * D]: for each field, d_out times the sum of the other fields."""
    v = _vectors(fields, dim)
    others = v.sum(axis=1, keepdims=True) - v  # [B, F, D]
    return (np.asarray(d_out, np.float64)[:, None] * others).reshape(np.shape(fields))


def _vectors(fields, dim: int) -> np.ndarray:
    fields = np.asarray(fields, np.float64)
    return fields.reshape(len(fields), fields.shape[1] // dim, dim)  # [B, F, D]


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(rows, fields, dim):
        return normal(rng, rows, fields * dim), dim

    return {
        "random": case(5, 4, 3),
        "wider than a vector": case(3, 26, 16),
        "one field meets no other": case(4, 1, 2),
        "no rows": case(0, 4, 3),
    }


def work(rows: float, fields: int, dim: int) -> Work:
    """Fields are read twice and their gradient is written; out is written and its gradient read."""
    return Work(flops=6.0 * rows * fields * dim, bytes=4.0 * rows * dim * (3 * fields + 2))
