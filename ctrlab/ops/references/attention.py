"""The definition of `ctrlab.ops.attention`, in NumPy, float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def reference(query, keys, lengths, layers: Sequence[tuple]) -> np.ndarray:
    """The definition, one row and one event at a time, NumPy float64.

    Args:
        query: [B, C].
        keys: [B, T, C]; what lies past a row's length is never read.
        lengths: ints [B], 0 to T.
        layers: the MLP's (kernel [in, out], bias [out]) pairs, 4C wide at the bottom and 1 at the top.
    Returns:
        weights [B, T]; each row with an event sums to 1.
    """
    weights = np.zeros(keys.shape[:2])
    for b, length in enumerate(lengths):
        scores = np.zeros(length)
        for t in range(length):
            q, k = query[b], keys[b, t]
            x = np.concatenate([q, k, q - k, q * k])  # [4C]
            for kernel, bias in layers[:-1]:
                x = 1 / (1 + np.exp(-(x @ kernel + bias)))
            kernel, bias = layers[-1]
            scores[t] = (x @ kernel + bias)[0]
        if length:
            scores = np.exp(scores - scores.max())
            weights[b, :length] = scores / scores.sum()
    return weights
