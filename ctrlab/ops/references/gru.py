"""The definition of `ctrlab.ops.gru`, in NumPy, float64."""

from __future__ import annotations

import itertools

import numpy as np

from ctrlab.ops.references.arrays import Events, normal
from ctrlab.profiling.work import Work


def reference(x: Events, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention: Events | None = None):
    """The definition, one example and one position at a time, NumPy float64.

    Args:
        x: C wide.
        gates_kernel, gates_bias: [C + H, 2H], [2H]; columns are the reset gate's, then the update gate's.
        candidate_kernel, candidate_bias: [C + H, H], [H].
        attention: one number per event, or None for a plain GRU.
    Returns:
        outputs, `Events`, H wide, and the last state [B, H].
    """
    flat, hidden = np.asarray(x.flat, np.float64), len(candidate_bias)
    scales = None if attention is None else np.asarray(attention.flat, np.float64)
    outputs, last = np.zeros((len(flat), hidden)), np.zeros((len(x.splits) - 1, hidden))
    for b, (begin, end) in enumerate(itertools.pairwise(np.asarray(x.splits))):
        h = last[b]
        for n in range(begin, end):
            gates = 1 / (1 + np.exp(-(np.concatenate([flat[n], h]) @ gates_kernel + gates_bias)))  # [2H]
            reset, update = gates[:hidden], gates[hidden:]
            candidate = np.tanh(np.concatenate([flat[n], reset * h]) @ candidate_kernel + candidate_bias)  # [H]
            if scales is not None:
                update = (1 - scales[n]) * update
            h = outputs[n] = update * h + (1 - update) * candidate
        last[b] = h
    return Events(x.splits, outputs), last


def reference_gradient(
    x: Events, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention: Events | None = None, *, d_out
) -> list[np.ndarray | None]:
    """Backpropagation through time by hand, float64.

    Args:
        d_out: the gradients of the outputs, [N, H], and of the last state, [B, H]. The others as in `reference`.
    Returns:
        The gradients of x, of the four weights in their order, and of the attention (None without attention).
    """
    weights, (d_outputs, d_last) = (gates_kernel, gates_bias, candidate_kernel, candidate_bias), d_out
    outputs, flat = reference(x, *weights, attention)[0].flat, np.asarray(x.flat, np.float64)
    (count, width), hidden = flat.shape, len(candidate_bias)
    d_x, d_attention = np.zeros(flat.shape), np.zeros(count)
    d_gates_kernel, d_gates_bias, d_candidate_kernel, d_candidate_bias = (np.zeros(np.shape(w)) for w in weights)
    for b, (begin, end) in enumerate(itertools.pairwise(np.asarray(x.splits))):
        d_h = np.array(d_last[b], np.float64)  # [H], gradient of the state after event n
        for n in reversed(range(begin, end)):
            before = outputs[n - 1] if n > begin else np.zeros(hidden)
            joined = np.concatenate([flat[n], before])  # [C + H]
            gates = 1 / (1 + np.exp(-(joined @ gates_kernel + gates_bias)))
            reset, gate = gates[:hidden], gates[hidden:]
            joined_reset = np.concatenate([flat[n], reset * before])
            candidate = np.tanh(joined_reset @ candidate_kernel + candidate_bias)
            kept = 1.0 if attention is None else 1 - attention.flat[n]
            update = kept * gate

            d_h = d_h + d_outputs[n]
            d_update = d_h * (before - candidate)  # h = u h + (1 - u) c
            d_attention[n] = -(d_update * gate).sum()  # u = (1 - a) gate
            d_candidate = d_h * (1 - update) * (1 - candidate**2)  # [H], gradient of the input of tanh
            d_joined_reset = candidate_kernel @ d_candidate  # [C + H]
            d_reset = d_joined_reset[width:] * before
            d_gates = np.concatenate([d_reset, d_update * kept]) * gates * (1 - gates)  # [2H], gradient of the input of sigmoid
            d_joined = gates_kernel @ d_gates  # [C + H]
            d_x[n] = d_joined[:width] + d_joined_reset[:width]
            d_h = d_h * update + d_joined[width:] + d_joined_reset[width:] * reset

            d_gates_kernel += np.outer(joined, d_gates)
            d_gates_bias += d_gates
            d_candidate_kernel += np.outer(joined_reset, d_candidate)
            d_candidate_bias += d_candidate
    of_attention = None if attention is None else d_attention
    return [d_x, d_gates_kernel, d_gates_bias, d_candidate_kernel, d_candidate_bias, of_attention]


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(lengths, attended, width=3, hidden=4):
        joined, events = width + hidden, sum(lengths)
        shapes = ((joined, 2 * hidden), (2 * hidden,), (joined, hidden), (hidden,))
        weights = [normal(rng, *shape, scale=0.5) for shape in shapes]
        attention = Events.of(lengths, rng.random(events, np.float32).astype(np.float64)) if attended else None
        return Events.of(lengths, normal(rng, events, width)), *weights, attention

    return {
        f"{name}{', attended' * attended}": case(*how, attended)
        for attended in (False, True)
        for name, how in {
            "random": [(5, 0, 1, 3)],
            "all rows of one length": [(3, 3)],
            "no events": [(0, 0, 0)],
            "no rows": [()],
        }.items()
    }


def work(events: float, width: int, hidden: int, attended: bool = False) -> Work:
    """Forward and backward over `events` events: three products of [x, h] with 3H columns; inputs and outputs twice."""
    return Work(flops=18.0 * events * (width + hidden) * hidden, bytes=8.0 * events * (width + hidden + attended))
