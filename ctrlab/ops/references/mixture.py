"""The definition of `ctrlab.ops.mixture`, in NumPy, float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctrlab.ops.references.arrays import normal
from ctrlab.profiling.work import Work


def reference(x, experts, kernels: Sequence, biases: Sequence) -> list[np.ndarray]:
    """The definition in NumPy, K of float64 [B, H].

    >>> reference(np.zeros((1, 2)), np.array([[[1.0]], [[3.0]]]), [np.zeros((2, 2))], [np.log([1.0, 3.0])])
    [array([[2.5]])]
    """
    experts = np.asarray(experts, np.float64)
    return [np.einsum("be,ebh->bh", gate, experts) for gate in _gates(x, kernels, biases)]


def reference_gradient(x, experts, kernels, biases, d_out):
    """d_x, d_experts, K d_kernels and K d_biases, float64."""
    x, experts = np.asarray(x, np.float64), np.asarray(experts, np.float64)
    d_x, d_experts, d_kernels, d_biases = np.zeros_like(x), np.zeros_like(experts), [], []
    for gate, kernel, d in zip(_gates(x, kernels, biases), kernels, d_out):
        d = np.asarray(d, np.float64)
        d_experts += np.einsum("be,bh->ebh", gate, d)
        d_gate = np.einsum("ebh,bh->be", experts, d)
        d_logits = gate * (d_gate - (gate * d_gate).sum(axis=1, keepdims=True))
        d_x += d_logits @ np.asarray(kernel, np.float64).T
        d_kernels.append(x.T @ d_logits)
        d_biases.append(d_logits.sum(axis=0))
    return d_x, d_experts, d_kernels, d_biases


def _gates(x, kernels, biases) -> list[np.ndarray]:
    """K of [B, E]."""
    logits = [np.asarray(x, np.float64) @ np.asarray(k, np.float64) + np.asarray(b, np.float64) for k, b in zip(kernels, biases)]
    weights = [np.exp(z - z.max(axis=1, keepdims=True)) for z in logits]
    return [w / w.sum(axis=1, keepdims=True) for w in weights]


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(rows, experts, tasks, inputs=6, width=5, scale=1.0):
        kernels = [normal(rng, inputs, experts, scale=scale) for _ in range(tasks)]
        return normal(rng, rows, inputs), normal(rng, experts, rows, width), kernels, [normal(rng, experts) for _ in range(tasks)]

    return {
        "random": case(7, 3, 2),
        "wider than a vector": case(3, 4, 2, width=70),
        "gates that are all but shut": case(7, 3, 1, scale=20.0),
        "one expert": case(4, 1, 2),
        "no rows": case(0, 3, 2),
    }


def work(rows: float, inputs: int, experts: int, tasks: int, width: int) -> Work:
    """Forward and backward of gates and mixture."""
    floats = 3 * inputs + 3 * experts * width + 2 * tasks * width
    return Work(flops=6.0 * rows * tasks * experts * (inputs + width), bytes=4.0 * rows * floats)
