"""The definition of `ctrlab.ops.attention`, in NumPy, float64."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ctrlab.ops.references.arrays import Events, normal, sigmoid_layers
from ctrlab.profiling.work import Work, dense_work


def reference(query, keys: Events, layers: Sequence[tuple]) -> tuple[Events, np.ndarray]:
    """The definition, one example and one event at a time, NumPy float64.

    Args:
        query: [B, C]; keys: C wide.
        layers: the MLP's (kernel [in, out], bias [out]) pairs, 4C wide at the bottom and 1 at the top.
    Returns:
        weights, one number per event, which sum to 1 per example; and attended [B, C], zeros for an example without events.
    """
    flat = np.asarray(keys.flat, np.float64)
    weights, attended = np.zeros(len(flat)), np.zeros(np.shape(query))
    for b, (begin, end) in enumerate(itertools.pairwise(np.asarray(keys.splits))):
        if begin == end:
            continue
        scores = np.array([_score(query[b], k, layers) for k in flat[begin:end]])
        e = np.exp(scores - scores.max())
        weights[begin:end] = e / e.sum()
        attended[b] = weights[begin:end] @ flat[begin:end]
    return Events(keys.splits, weights), attended


def _score(q, k, layers) -> float:
    x = np.concatenate([q, k, q - k, q * k])  # [4C]
    for kernel, bias in layers[:-1]:
        x = 1 / (1 + np.exp(-(x @ kernel + bias)))
    kernel, bias = layers[-1]
    return (x @ kernel + bias)[0]


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(lengths, units=(7, 5, 1), width=3):
        keys = Events.of(lengths, normal(rng, sum(lengths), width))
        return normal(rng, len(lengths), width), keys, sigmoid_layers(rng, 4 * width, *units)

    return {
        "random": case((6, 0, 1, 4)),
        "a single layer": case((3, 2), units=(1,)),
        "layers wider than a vector": case((2, 1), units=(33, 4, 20, 1)),
        "one event a row": case((1, 1, 1, 1)),
        "no events": case((0, 0, 0)),
        "no rows": case(()),
    }


def work(rows: float, events: float, width: int, units: Sequence[int], attended: bool = True) -> Work:
    """Forward and backward of the unit on the existing events; without `attended`, of the weights alone.

    The first layer on [q, k, q - k, q * k] is q (Wq + Wd) + k (Wk - Wd + diag(q) Wp): one product per example, one per event, and
    the construction of the example's matrix.
    """
    per_event = dense_work((width, *units, 1), events)
    return per_event + Work(flops=12.0 * rows * width * units[0] + 6.0 * attended * events * width)
