"""The definition of `ctrlab.ops.pointwise`, in NumPy, float64."""

from __future__ import annotations

import numpy as np

from ctrlab.errors import CtrlabError, choose
from ctrlab.ops.references.arrays import normal
from ctrlab.profiling.work import Work

KINDS = ("relu", "prelu", "affine")
SLOPED = ("prelu", "affine")


def reference(kind: str, x, shift, slope=None) -> np.ndarray:
    """The definition in NumPy, float64.

    >>> reference("prelu", np.array([[-2.0, 2.0]]), np.zeros(2), np.array([0.5, 0.5])).tolist()
    [[-1.0, 2.0]]
    """
    agree(kind, slope)
    x = np.asarray(x, np.float64)
    if kind == "affine":
        return slope * x + shift
    p = x + shift
    if kind == "prelu":
        return np.where(p > 0, p, slope * p)
    return np.maximum(p, 0)


def reference_gradient(kind: str, x, shift, slope=None, *, d_out) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """d_x [B, n], d_shift [n] and d_slope, [n] or None; float64."""
    agree(kind, slope)
    x, d_out = np.asarray(x, np.float64), np.asarray(d_out, np.float64)
    if kind == "affine":
        return slope * d_out, d_out.sum(0), (d_out * x).sum(0)
    p = x + shift
    if kind == "prelu":
        d_x = np.where(p > 0, d_out, slope * d_out)
        return d_x, d_x.sum(0), np.where(p > 0, 0, d_out * p).sum(0)
    d_x = d_out * (p > 0)
    return d_x, d_x.sum(0), None


def agree(kind: str, slope) -> None:
    choose("kind", kind, KINDS)
    if (slope is not None) != (kind in SLOPED):
        raise CtrlabError(f"A slope belongs to {' and '.join(SLOPED)}; {kind!r} was given {'none' if slope is None else 'one'}.")


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    shapes = {"random": (6, 5), "wider than a vector": (3, 67), "one number": (1, 1), "no rows": (0, 5)}
    return {
        f"{kind}, {name}": (kind, normal(rng, *shape), *(normal(rng, shape[1]) for _ in range(1 + (kind in SLOPED))))
        for kind in KINDS
        for name, shape in shapes.items()
    }


def work(rows: float, columns: int) -> Work:
    """Forward reads x and writes out; backward reads one of these two and d_out, and writes d_x."""
    return Work(flops=5.0 * rows * columns, bytes=5 * 4.0 * rows * columns)
