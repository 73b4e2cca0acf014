"""GRU and AUGRU over histories: every output and the last state.

    g_t = sigmoid([x_t, h_{t-1}] W_g + b_g) = [r_t, u_t]            reset and update gate
    c_t = tanh([x_t, r_t * h_{t-1}] W_c + b_c)                      candidate: the reset comes before the product
    u_t = (1 - a_t) u_t                                             AUGRU only: attention scales the update gate
    h_t = u_t * h_{t-1} + (1 - u_t) * c_t

    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", EMNLP 2014; the attention update gate: Zhou et
    al., "Deep Interest Evolution Network", AAAI 2019 (there 1 - u is written u, so that "a u" is this "(1 - a) u" mirrored;
    the formula here is that of its published code). Keras's `reset_after=False` and oneDNN's vanilla GRU are this form;
    torch's GRU, and Keras's default, reset after the product.

Past a row's end the state is copied through and the outputs are zeros; a row of length 0 keeps the zero state.

The stock loop carries every row through every position up to the longest row's end, one small product after another. The fused
op takes the histories end to end, [N, C]; rows of similar length go through time together on one thread, and their weights,
state and gates stay in its first caches.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ctrlab.ops import _native
from ctrlab.profiling.parts import part


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


def cell(x, h, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention=None) -> tf.Tensor:
    """One position: x [B, C], h [B, H], attention [B, 1] or None -> the next state [B, H]."""
    gates = tf.sigmoid(tf.matmul(tf.concat([x, h], 1), gates_kernel) + gates_bias)  # [B, 2H]
    reset, update = tf.split(gates, 2, axis=1)  # [B, H] each
    candidate = tf.tanh(tf.matmul(tf.concat([x, reset * h], 1), candidate_kernel) + candidate_bias)  # [B, H]
    if attention is not None:
        update = (1.0 - attention) * update
    return update * h + (1.0 - update) * candidate


@part("gru")
def stock(x, lengths, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention=None):
    """The composed cell in a `tf.while_loop`, as `dynamic_rnn` does it: float32, otherwise as `reference`."""
    rows, most, hidden = tf.shape(x)[0], tf.shape(x)[1], candidate_bias.shape[0]
    lengths = tf.cast(lengths, tf.int32)
    weights = (gates_kernel, gates_bias, candidate_kernel, candidate_bias)
    zeros = tf.zeros((rows, hidden))
    outputs = tf.TensorArray(tf.float32, size=most, element_shape=(None, hidden))
    # Arrays of slices, not slices of one tensor: the gradient of `x[t]` in a loop would be T tensors of x's full size.
    inputs = tf.TensorArray(tf.float32, size=most, element_shape=(None, x.shape[2])).unstack(tf.transpose(x, (1, 0, 2)))
    scales = None
    if attention is not None:
        scales = tf.TensorArray(tf.float32, size=most, element_shape=(None, 1)).unstack(tf.transpose(attention)[:, :, None])

    def step(t, h, outputs):
        new = cell(inputs.read(t), h, *weights, None if scales is None else scales.read(t))  # [B, H]
        valid = (t < lengths)[:, None]  # [B, 1]
        return t + 1, tf.where(valid, new, h), outputs.write(t, tf.where(valid, new, 0.0))

    def loop():
        _, last, all_outputs = tf.while_loop(lambda t, *_: t < most, step, (tf.constant(0), zeros, outputs))
        return tf.transpose(all_outputs.stack(), (1, 0, 2)), last  # [B, T, H], [B, H]

    # A TensorArray that nothing was written to has no shape to stack.
    return tf.cond(most > 0, loop, lambda: (tf.zeros((rows, 0, hidden)), zeros))


@part("gru")
def fused(x, splits, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention=None) -> tuple[tf.Tensor, tf.Tensor]:
    """The compiled op over ragged histories; differentiable in x, the attention and all weights.

    Args:
        x: float32 [N, C], all rows' positions one after another.
        splits: int64 [B + 1], row b's positions are x[splits[b] : splits[b + 1]].
        attention: float32 [N], or None for a plain GRU. The weights are `reference`'s, float32.
    Returns:
        outputs [N, H] and the last state [B, H], zeros for a row of length 0.
    Raises:
        InvalidArgumentError: shapes do not agree, or splits are none. NativeLibraryError: there is no compiled library.
    """
    outputs, last, _ = _native.library().ops.ctrlab_gru(
        x=x,
        splits=splits,
        gates_kernel=gates_kernel,
        gates_bias=gates_bias,
        candidate_kernel=candidate_kernel,
        candidate_bias=candidate_bias,
        attention=[] if attention is None else [attention],
    )
    return outputs, last


@tf.RegisterGradient("Ctrlab>Gru")
def _fused_gradient(op: tf.Operation, d_outputs: tf.Tensor, d_last: tf.Tensor, _) -> list[tf.Tensor | None]:
    x, splits, *weights = list(op.inputs)[:6]
    outputs, _, gates = op.outputs
    d_x, *d_weights, d_attention = _native.library().ops.ctrlab_gru_gradient(
        x=x,
        splits=splits,
        gates_kernel=weights[0],
        gates_bias=weights[1],
        candidate_kernel=weights[2],
        candidate_bias=weights[3],
        attention=list(op.inputs)[6:],
        outputs=outputs,
        gates=gates,
        d_outputs=d_outputs,
        d_last=d_last,
    )
    return [d_x, None, *d_weights, *d_attention]
