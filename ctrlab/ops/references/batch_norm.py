"""The definition of `ctrlab.ops.batch_norm`, in NumPy, float64."""

from __future__ import annotations

import numpy as np

from ctrlab.ops.references.arrays import normal
from ctrlab.profiling.work import Work

EPSILON, MOMENTUM = 1e-3, 0.99  # Keras's


def reference(product, bias, scale, shift, moving_mean, moving_variance, epsilon=EPSILON, momentum=MOMENTUM) -> tuple:
    """The definition in NumPy, float64: out [B, n], new moving mean [n], new moving variance [n].

    >>> zeros, ones = np.zeros(1), np.ones(1)
    >>> out, mean, _ = reference(np.array([[-4.0], [2.0]]), zeros, ones, zeros, zeros, ones, epsilon=0, momentum=0)
    >>> out.tolist(), mean.tolist()
    ([[-1.0], [1.0]], [1.0])
    """
    moving = np.asarray(moving_mean, np.float64), np.asarray(moving_variance, np.float64)
    a = np.maximum(np.asarray(product, np.float64) + bias, 0)
    if not len(a):
        return a, *moving
    mean, variance = a.mean(0), a.var(0)
    out = scale * (a - mean) / np.sqrt(variance + epsilon) + shift
    return out, *(momentum * old + (1 - momentum) * new for old, new in zip(moving, (mean, variance)))


def reference_gradient(
    product, bias, scale, shift, moving_mean, moving_variance, epsilon=EPSILON, momentum=MOMENTUM, *, d_out
) -> tuple[np.ndarray, ...]:
    """d_product [B, n], d_bias, d_scale, d_shift [n]; float64. `d_out` belongs to `out`; the moving statistics have no
    gradient."""
    a, d_out = np.maximum(np.asarray(product, np.float64) + bias, 0), np.asarray(d_out, np.float64)
    if not len(a):
        return a, *(np.zeros(a.shape[1]) for _ in range(3))
    deviation = np.sqrt(a.var(0) + epsilon)
    normal = (a - a.mean(0)) / deviation
    d_shift, d_scale = d_out.sum(0), (d_out * normal).sum(0)
    # Each entry also changes mean and variance, and through them its whole column.
    d_a = scale / deviation * (d_out - d_shift / len(a) - normal * d_scale / len(a))
    d_product = np.where(a > 0, d_a, 0)
    return d_product, d_product.sum(0), d_scale, d_shift


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(rows, columns, offset=0.0):
        vectors = [normal(rng, columns) for _ in range(4)]
        return normal(rng, rows, columns) + offset, *vectors, normal(rng, columns) ** 2

    return {
        "random": case(9, 5),
        "wider than a vector": case(33, 130),
        "a column of zeros behind the ReLU": case(9, 17, offset=-50.0),
        "one row": case(1, 5),
        "one column": case(2, 1),
    }


def work(rows: float, columns: int) -> Work:
    """Forward reads product and writes out; backward reads product and d_out and writes d_product. The vectors are negligible.

    Arithmetic: at least 9 operations per entry forward and 15 backward.
    """
    return Work(flops=24.0 * rows * columns, bytes=5 * 4.0 * rows * columns)
