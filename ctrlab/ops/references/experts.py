"""The definition of `ctrlab.ops.experts`, in NumPy, float64."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ctrlab.ops.references.arrays import normal
from ctrlab.profiling.work import Work


def reference(x, kernels: Sequence, biases: Sequence) -> np.ndarray:
    """The definition in NumPy, float64 [E, B, H].

    >>> reference(np.array([[1.0, 2]]), [np.array([[[1.0], [10]], [[-1], [0]]])], [np.array([[[0.5]], [[0.5]]])])
    array([[[21.5]],
    <BLANKLINE>
           [[ 0. ]]])
    """
    return _hidden(x, kernels, biases)[-1]


def reference_gradient(x, kernels, biases, d_out) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """d_x, d_kernels, d_biases, float64."""
    hidden = _hidden(x, kernels, biases)
    d, d_kernels, d_biases = np.asarray(d_out, np.float64), [], []
    for kernel, below, y in zip(reversed(kernels), hidden[-2::-1], hidden[:0:-1]):
        d = d * (y > 0)  # [E, B, out]
        d_kernels.insert(0, np.swapaxes(below, 1, 2) @ d)  # [E, in, out]
        d_biases.insert(0, d.sum(axis=1, keepdims=True))  # [E, 1, out]
        d = d @ np.swapaxes(np.asarray(kernel, np.float64), 1, 2)  # [E, B, in]
    return d.sum(axis=0), d_kernels, d_biases


def _hidden(x, kernels, biases) -> list[np.ndarray]:
    """x for each expert, then the output of each layer: L + 1 of [E, B, .]."""
    experts = len(kernels[0])
    hidden = [np.broadcast_to(np.asarray(x, np.float64), (experts, *np.shape(x)))]
    for kernel, bias in zip(kernels, biases):
        hidden.append(np.maximum(hidden[-1] @ np.asarray(kernel, np.float64) + np.asarray(bias, np.float64), 0))
    return hidden


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(rows, experts, *sizes):
        layers = list(itertools.pairwise(sizes))
        kernels = [normal(rng, experts, i, o, scale=0.3) for i, o in layers]
        return normal(rng, rows, sizes[0]), kernels, [normal(rng, experts, 1, o, scale=0.3) for _, o in layers]

    return {
        "random": case(9, 3, 5, 16, 32),
        "more rows than a block": case(70, 2, 7, 16),
        "a single expert": case(5, 1, 4, 32, 16, 16),
        "one row": case(1, 2, 3, 16),
        "no rows": case(0, 2, 3, 16),
    }


def work(rows: float, experts: int, sizes: Sequence[int]) -> Work:
    """Forward and backward: x and its gradient, the output and its gradient, kernels read twice, and their gradients written."""
    weights = experts * sum(i * o for i, o in itertools.pairwise(sizes))
    return Work(flops=6.0 * rows * weights, bytes=4.0 * (3 * weights + rows * (2 * sizes[0] + 2 * experts * sizes[-1])))
