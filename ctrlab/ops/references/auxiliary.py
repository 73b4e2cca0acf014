"""The definition of `ctrlab.ops.auxiliary`, in NumPy, float64."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ctrlab.ops.references.arrays import Events, normal, sigmoid_layers
from ctrlab.profiling.work import Work


def reference(interests: Events, clicked: Events, skipped: Events, scale, shift, layers) -> np.ndarray:
    """The definition, one event at a time, NumPy float64 [].

    Args:
        interests: H wide; clicked, skipped: C wide, the events and, for each, one that did not happen.
        scale, shift: [H + C].
        layers: the MLP's (kernel [in, out], bias [out]) pairs, H + C wide at the bottom and 1 at the top; sigmoid between.
    """
    h, happened, not_happened = (np.asarray(events.flat, np.float64) for events in (interests, clicked, skipped))

    def logit(h, e):
        x = scale * np.concatenate([h, e]) + shift  # [H + C]
        for kernel, bias in layers[:-1]:
            x = 1 / (1 + np.exp(-(x @ kernel + bias)))
        return (x @ layers[-1][0] + layers[-1][1])[0]

    losses = [
        np.logaddexp(0, -logit(h[n], happened[n + 1])) + np.logaddexp(0, logit(h[n], not_happened[n + 1]))
        for begin, end in itertools.pairwise(np.asarray(clicked.splits))
        for n in range(begin, end - 1)
    ]
    return np.array(np.mean(losses) if losses else 0.0)


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(lengths, hidden=4, width=3, units=(6, 5, 1)):
        events = [Events.of(lengths, normal(rng, sum(lengths), wide)) for wide in (hidden, width, width)]
        joined = hidden + width
        return *events, normal(rng, joined), normal(rng, joined), sigmoid_layers(rng, joined, *units)

    return {
        "random": case((3, 0, 1, 2, 5)),
        "a single layer": case((4, 2), units=(1,)),
        "a layer wider than a vector": case((4, 2), units=(33, 1)),
        "no event with a next one": case((1, 0, 1)),
        "no events": case((0, 0)),
        "no rows": case(()),
    }


def work(events: float, positions: float, hidden: int, width: int, units: Sequence[int]) -> Work:
    """Forward and backward, where `positions` of `events` have a next event.

    The interest's half of the first layer is computed once; the event's half and the layers above run for clicked and for
    skipped.
    """
    per_position = hidden * units[0] + 2 * sum(i * o for i, o in itertools.pairwise((width, *units, 1)))
    return Work(flops=6.0 * positions * per_position, bytes=4.0 * 2 * events * (hidden + 2 * width))
