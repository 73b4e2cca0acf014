"""The definition of `ctrlab.ops.auxiliary`, in NumPy, float64."""

from __future__ import annotations

import itertools

import numpy as np


def reference(interests, clicked, skipped, splits, scale, shift, layers) -> float:
    """The definition, one event at a time, NumPy float64.

    Args:
        interests: [N, H]; clicked, skipped: [N, C], the events and, for each, one that did not happen.
        splits: ints [B + 1]; row b's events are those of splits[b] to splits[b + 1] - 1.
        scale, shift: [H + C].
        layers: the MLP's (kernel [in, out], bias [out]) pairs, H + C wide at the bottom and 1 at the top; sigmoid between.
    """

    def logit(h, e):
        x = scale * np.concatenate([h, e]) + shift  # [H + C]
        for kernel, bias in layers[:-1]:
            x = 1 / (1 + np.exp(-(x @ kernel + bias)))
        return (x @ layers[-1][0] + layers[-1][1])[0]

    losses = [
        np.logaddexp(0, -logit(interests[n], clicked[n + 1])) + np.logaddexp(0, logit(interests[n], skipped[n + 1]))
        for begin, end in itertools.pairwise(splits)
        for n in range(begin, end - 1)
    ]
    return float(np.mean(losses)) if losses else 0.0
