"""The definition of `ctrlab.ops.gru`, in NumPy, float64."""

from __future__ import annotations

import numpy as np


def reference(x, lengths, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention=None):
    """The definition, one row and one position at a time, NumPy float64.

    Args:
        x: [B, T, C]; what lies past a row's length is never read.
        lengths: ints [B], 0 to T.
        gates_kernel, gates_bias: [C + H, 2H], [2H]; columns are the reset gate's, then the update gate's.
        candidate_kernel, candidate_bias: [C + H, H], [H].
        attention: [B, T], or None for a plain GRU.
    Returns:
        outputs [B, T, H] and the last state [B, H].
    """
    (rows, most, _), hidden = x.shape, len(candidate_bias)
    outputs, last = np.zeros((rows, most, hidden)), np.zeros((rows, hidden))
    for b in range(rows):
        h = np.zeros(hidden)
        for t in range(lengths[b]):
            gates = 1 / (1 + np.exp(-(np.concatenate([x[b, t], h]) @ gates_kernel + gates_bias)))  # [2H]
            reset, update = gates[:hidden], gates[hidden:]
            candidate = np.tanh(np.concatenate([x[b, t], reset * h]) @ candidate_kernel + candidate_bias)  # [H]
            if attention is not None:
                update = (1 - attention[b, t]) * update
            h = update * h + (1 - update) * candidate
            outputs[b, t] = h
        last[b] = h
    return outputs, last


def reference_gradient(
    x, lengths, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention=None, *, d_outputs, d_last
) -> list[np.ndarray | None]:
    """Backpropagation through time by hand, float64: the gradients of the sum of d_outputs * outputs and d_last * last.

    Args:
        d_outputs: [B, T, H]; what lies past a row's length is never read. d_last: [B, H]. The others as in `reference`.
    Returns:
        The gradients of x, of the four weights in their order, and of the attention (None where there is none).
    """
    weights = (gates_kernel, gates_bias, candidate_kernel, candidate_bias)
    outputs, _ = reference(x, lengths, *weights, attention)
    (rows, _, width), hidden = x.shape, len(candidate_bias)
    d_x, d_attention = np.zeros(x.shape), np.zeros(x.shape[:2])
    d_gates_kernel, d_gates_bias, d_candidate_kernel, d_candidate_bias = (np.zeros(np.shape(w)) for w in weights)
    for b in range(rows):
        d_h = np.array(d_last[b], np.float64)  # [H], of the state after position t
        for t in reversed(range(lengths[b])):
            before = outputs[b, t - 1] if t else np.zeros(hidden)
            joined = np.concatenate([x[b, t], before])  # [C + H]
            gates = 1 / (1 + np.exp(-(joined @ gates_kernel + gates_bias)))
            reset, gate = gates[:hidden], gates[hidden:]
            joined_reset = np.concatenate([x[b, t], reset * before])
            candidate = np.tanh(joined_reset @ candidate_kernel + candidate_bias)
            kept = 1.0 if attention is None else 1 - attention[b, t]
            update = kept * gate

            d_h = d_h + d_outputs[b, t]
            d_update = d_h * (before - candidate)  # h = u h + (1 - u) c
            d_attention[b, t] = -(d_update * gate).sum()  # u = (1 - a) gate
            d_candidate = d_h * (1 - update) * (1 - candidate**2)  # [H], of what goes into tanh
            d_joined_reset = candidate_kernel @ d_candidate  # [C + H]
            d_reset = d_joined_reset[width:] * before
            d_gates = np.concatenate([d_reset, d_update * kept]) * gates * (1 - gates)  # [2H], of what goes into sigmoid
            d_joined = gates_kernel @ d_gates  # [C + H]
            d_x[b, t] = d_joined[:width] + d_joined_reset[:width]
            d_h = d_h * update + d_joined[width:] + d_joined_reset[width:] * reset

            d_gates_kernel += np.outer(joined, d_gates)
            d_gates_bias += d_gates
            d_candidate_kernel += np.outer(joined_reset, d_candidate)
            d_candidate_bias += d_candidate
    of_attention = None if attention is None else d_attention
    return [d_x, d_gates_kernel, d_gates_bias, d_candidate_kernel, d_candidate_bias, of_attention]
