"""The definition of `ctrlab.ops.dot_interaction`, in NumPy, float64."""

from __future__ import annotations

import numpy as np

from ctrlab.ops.references.arrays import normal
from ctrlab.profiling.work import Work


def reference(bottom, fields, dim: int) -> np.ndarray:
    """The definition in NumPy, float64.

    >>> reference(np.array([[1.0, 2]]), np.array([[3.0, 4, 5, 6]]), dim=2)  # 1 2, 3 1 + 4 2, 5 1 + 6 2, 5 3 + 6 4
    array([[ 1.,  2., 11., 17., 39.]])
    """
    u = _vectors(bottom, fields, dim)
    pairs = [(u[:, i] * u[:, j]).sum(axis=1) for i in range(u.shape[1]) for j in range(i)]  # P of [B]
    pairs = np.stack(pairs, axis=1) if pairs else np.zeros((len(u), 0))
    return pairs if bottom is None else np.concatenate([u[:, 0], pairs], axis=1)


def reference_gradient(bottom, fields, dim: int, d_out) -> tuple[np.ndarray | None, np.ndarray]:
    """d_bottom, float64 [B, D] or None, and d_fields [B, F * D]."""
    u, d_out = _vectors(bottom, fields, dim), np.asarray(d_out, np.float64)
    d_u = np.zeros_like(u)
    if bottom is not None:
        d_u[:, 0], d_out = d_out[:, :dim], d_out[:, dim:]
    row, column = np.tril_indices(u.shape[1], -1)
    for p, (i, j) in enumerate(zip(row, column)):
        d_u[:, i] += d_out[:, p, None] * u[:, j]
        d_u[:, j] += d_out[:, p, None] * u[:, i]
    if bottom is None:
        return None, d_u.reshape(np.shape(fields))
    return d_u[:, 0], d_u[:, 1:].reshape(np.shape(fields))


def _vectors(bottom, fields, dim: int) -> np.ndarray:
    fields = np.asarray(fields, np.float64)
    u = fields.reshape(len(fields), fields.shape[1] // dim, dim)
    return u if bottom is None else np.concatenate([np.asarray(bottom, np.float64)[:, None], u], axis=1)  # [B, U, D]


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(rows, fields, dim, bottom=True):
        return normal(rng, rows, dim) if bottom else None, normal(rng, rows, fields * dim), dim

    return {
        "random": case(5, 4, 3),
        "no bottom": case(5, 4, 3, bottom=False),
        "wider than a vector": case(3, 27, 16),
        "one pair": case(4, 1, 2),
        "no pair": case(4, 1, 2, bottom=False),
        "no rows": case(0, 4, 3),
    }


def work(rows: float, vectors: int, dim: int) -> Work:
    """Forward and backward of the pairs of `vectors` vectors, including the bottom vector."""
    pairs = vectors * (vectors - 1) // 2
    return Work(flops=6.0 * rows * pairs * dim, bytes=4.0 * rows * (3 * vectors * dim + 2 * (dim + pairs)))
