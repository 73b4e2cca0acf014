"""GRU and AUGRU over padded sequences: every output and the last state.

    g_t = sigmoid([x_t, h_{t-1}] W_g + b_g) = [r_t, u_t]            reset and update gate
    c_t = tanh([x_t, r_t * h_{t-1}] W_c + b_c)                      candidate: the reset comes before the product
    u_t = (1 - a_t) u_t                                             AUGRU only: attention scales the update gate
    h_t = u_t * h_{t-1} + (1 - u_t) * c_t

    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", EMNLP 2014; the attention update gate: Zhou et
    al., "Deep Interest Evolution Network", AAAI 2019 (there 1 - u is written u, so that "a u" is this "(1 - a) u" mirrored;
    the formula here is that of its published code). Keras's `reset_after=False` and oneDNN's vanilla GRU are this form;
    torch's GRU, and Keras's default, reset after the product.

Past a row's end the state is copied through and the outputs are zeros; a row of length 0 keeps the zero state.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

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
