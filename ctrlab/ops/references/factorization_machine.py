"""The definition of `ctrlab.ops.factorization_machine`, in NumPy, float64."""

from __future__ import annotations

import numpy as np


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
    """d_fields, float64 [B, F * D]: of each field d_out times the sum of the others."""
    v = _vectors(fields, dim)
    others = v.sum(axis=1, keepdims=True) - v  # [B, F, D]
    return (np.asarray(d_out, np.float64)[:, None] * others).reshape(np.shape(fields))


def _vectors(fields, dim: int) -> np.ndarray:
    fields = np.asarray(fields, np.float64)
    return fields.reshape(len(fields), fields.shape[1] // dim, dim)  # [B, F, D]
