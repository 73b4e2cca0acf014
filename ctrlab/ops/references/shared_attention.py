"""The definition of `ctrlab.ops.shared_attention`, in NumPy, float64."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ctrlab.ops.references import attention
from ctrlab.ops.references.arrays import Events, normal, repeated, sigmoid_layers
from ctrlab.profiling.work import Work


def reference(query, keys: Events, candidates, layers: Sequence[tuple]) -> tuple[np.ndarray, np.ndarray]:
    """Attention over each user's history, once per candidate of the user.

    Args:
        query: [N, C], the candidates of the first user, then those of the second, and so on; keys: C wide.
        candidates: int64 [U], how many each user has; layers: as in `attention`.
    Returns:
        weights, one number per candidate and event of its user, in this order; and attended [N, C].
    """
    weights, attended = attention.reference(query, repeated(keys, candidates), layers)
    return weights.flat, attended


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(lengths, candidates, units=(7, 5, 1), width=3):
        keys = Events.of(lengths, normal(rng, sum(lengths), width))
        query = normal(rng, sum(candidates), width)
        return query, keys, np.array(candidates, np.int64), sigmoid_layers(rng, 4 * width, *units)

    return {
        "random": case((6, 2, 1, 4), (3, 1, 5, 2)),
        "a single layer": case((3, 2), (2, 2), units=(1,)),
        "layers wider than a vector": case((2, 1), (4, 1), units=(33, 4, 20, 1)),
        "one user, more candidates than a vector": case((5,), (37,)),
        "one candidate, a longer history than a vector": case((37,), (1,)),
        "no candidates of a user": case((3, 2, 1), (0, 2, 0)),
        "no events of a user": case((0, 3, 0), (2, 1, 0)),
        "no events": case((0, 0), (3, 1)),
        "no users": case((), ()),
    }


def work(candidates: float, events: float, pairs: float, width: int, units: Sequence[int]) -> Work:
    """Forward alone. `pairs` counts each candidate with each event of its user.

    The first layer on [q, k, q - k, q * k] is q (Wq + Wd) + k (Wk - Wd) + (q * k) Wp: one product per candidate, one per event,
    and one per pair, which nothing can share. The layers above, all sigmoids and the weighted sum are per pair, too. The
    exponential of the softmax, one beside a pair's 120 sigmoids in the contest's unit, is not counted.
    """
    products = sum(i * o for i, o in itertools.pairwise((width, *units, 1)))
    per_pair = Work(flops=2.0 * (products + width), bytes=4.0, sigmoids=sum(units)) * pairs
    return per_pair + Work(2.0 * (candidates + events) * width * units[0], 4.0 * (2 * candidates + events) * width)
