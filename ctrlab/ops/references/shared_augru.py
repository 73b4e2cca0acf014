"""The definition of `ctrlab.ops.shared_augru`, in NumPy, float64."""

from __future__ import annotations

import numpy as np

from ctrlab.ops.references import gru
from ctrlab.ops.references.arrays import Events, normal, repeated
from ctrlab.profiling.work import Work


def reference(x: Events, candidates, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention) -> np.ndarray:
    """An AUGRU over each user's history, once per candidate of the user.

    Args:
        x: C wide; candidates: int64 [U], how many each user has; the four weights as in `gru`.
        attention: one number per candidate and event of its user, in this order.
    Returns:
        The last states [N, H], zeros for the candidates of a user without events.
    """
    histories = repeated(x, candidates)
    scales = Events(histories.splits, np.asarray(attention))
    return gru.reference(histories, gates_kernel, gates_bias, candidate_kernel, candidate_bias, scales)[1]


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(lengths, candidates, width=3, hidden=4):
        joined, pairs = width + hidden, int(np.dot(lengths, candidates))
        shapes = ((joined, 2 * hidden), (2 * hidden,), (joined, hidden), (hidden,))
        weights = [normal(rng, *shape, scale=0.5) for shape in shapes]
        attention = rng.random(pairs, np.float32).astype(np.float64)
        x = Events.of(lengths, normal(rng, sum(lengths), width))
        return x, np.array(candidates, np.int64), *weights, attention

    return {
        "random": case((5, 2, 1, 3), (2, 1, 4, 3)),
        "one user, more candidates than a block": case((4,), (75,)),
        "one candidate of a user": case((6,), (1,)),
        "widths of no vector": case((3, 2), (2, 3), width=17, hidden=19),
        "no candidates of a user": case((3, 2, 1), (0, 2, 0)),
        "no events of a user": case((0, 3, 0), (2, 1, 0)),
        "no events": case((0, 0), (3, 1)),
        "no users": case((), ()),
    }


def work(candidates: float, events: float, pairs: float, width: int, hidden: int) -> Work:
    """Forward alone. `pairs` counts each candidate with each event of its user.

    x W is computed once per event. The first event finds the state zero, so its gates are shared, too. After it states differ and
    nothing is shared: per pair three products of H numbers with H columns, two sigmoids and one tanh of each unit.
    """
    per_pair = Work(flops=6.0 * hidden * hidden, sigmoids=3 * hidden) * max(0.0, pairs - candidates)
    return per_pair + Work(6.0 * events * width * hidden, 4.0 * (events * width + pairs + candidates * hidden))
