"""The definition of `ctrlab.ops.tower`, in NumPy, float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctrlab.ops.references import experts
from ctrlab.profiling.work import Work


def reference(x, kernels: Sequence, biases: Sequence) -> np.ndarray:
    """The definition in NumPy, float64 [B, H].

    >>> reference(np.array([[1.0, 2]]), [np.array([[1.0, -1], [10, 0]])], [np.array([0.5, 0.5])])
    array([[21.5,  0. ]])
    """
    y = np.asarray(x, np.float64)
    for kernel, bias in zip(kernels, biases):
        y = np.maximum(y @ kernel + bias, 0)
    return y


def reference_gradient(x, kernels, biases, d_out) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """d_x, d_kernels, d_biases, float64: the gradients of a single expert."""
    d_x, d_kernels, d_biases = experts.reference_gradient(
        x, [kernel[None] for kernel in kernels], [bias[None, None] for bias in biases], np.asarray(d_out)[None]
    )
    return d_x, [d[0] for d in d_kernels], [d[0, 0] for d in d_biases]


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    """The cases of a single expert."""
    found = experts.cases(rng)
    return {name: (x, [k[0] for k in kernels], [b[0, 0] for b in biases]) for name, (x, kernels, biases) in found.items()}


def work(rows: float, sizes: Sequence[int]) -> Work:
    return experts.work(rows, 1, sizes)
