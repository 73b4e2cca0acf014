"""GRU and AUGRU over histories: every output and the last state.

    g_t = sigmoid([x_t, h_{t-1}] W_g + b_g) = [r_t, u_t]            reset and update gate
    c_t = tanh([x_t, r_t * h_{t-1}] W_c + b_c)                      candidate; the reset is applied before the product
    u_t = (1 - a_t) u_t                                             AUGRU only: attention scales the update gate
    h_t = u_t * h_{t-1} + (1 - u_t) * c_t

    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", EMNLP 2014; the attention update gate: Zhou et
    al., "Deep Interest Evolution Network", AAAI 2019. The paper writes u for our 1 - u, so its "a u" corresponds to the
        "(1 - a) u" here; the formula here is that of its published code. Keras's `reset_after=False` and oneDNN's vanilla GRU are
        this form; torch's GRU, and Keras's default, apply the reset after the product.

Past a history's end the state is copied and the outputs are zeros. A history of length 0 keeps the zero state.

Every way takes

    x: `Events`, C wide.
    gates_kernel, gates_bias: float32 [C + H, 2H], [2H]; columns are the reset gate's, then the update gate's.
    candidate_kernel, candidate_bias: float32 [C + H, H], [H].
    attention: `Events`, one number each, or None for a plain GRU.

and returns outputs, `Events`, H wide, and the last state, float32 [B, H], zeros for an example without events. The baseline
loops over all positions up to the longest history, with every example in each small product. The fused op takes flat histories,
[N, C]. One thread processes sequences of similar length as one block, so that their weights, state and gates stay in its
fastest caches.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from ctrlab import _native
from ctrlab.ops.events import Events
from ctrlab.ops.op import Op
from ctrlab.ops.references import gru as definition


def cell(x, h, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention=None) -> tf.Tensor:
    """One position: x [B, C], h [B, H], attention [B, 1] or None -> the next state [B, H]."""
    gates = tf.sigmoid(tf.matmul(tf.concat([x, h], 1), gates_kernel) + gates_bias)  # [B, 2H]
    reset, update = tf.split(gates, 2, axis=1)  # [B, H] each
    candidate = tf.tanh(tf.matmul(tf.concat([x, reset * h], 1), candidate_kernel) + candidate_bias)  # [B, H]
    if attention is not None:
        update = (1.0 - attention) * update
    return update * h + (1.0 - update) * candidate


def baseline(x: Events, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention: Events | None = None):
    """The composed cell in a `tf.while_loop`, as `dynamic_rnn` does it."""
    padded, hidden = x.padded, candidate_bias.shape[0]
    rows, most = tf.shape(padded)[0], tf.shape(padded)[1]
    lengths = tf.cast(x.lengths, tf.int32)
    weights = (gates_kernel, gates_bias, candidate_kernel, candidate_bias)
    zeros = tf.zeros((rows, hidden))
    outputs = tf.TensorArray(tf.float32, size=most, element_shape=(None, hidden))
    # TensorArrays, not slices of one tensor: the gradient of `x[t]` in a loop would be T tensors of x's full size.
    inputs = tf.TensorArray(tf.float32, size=most, element_shape=(None, padded.shape[2])).unstack(tf.transpose(padded, (1, 0, 2)))
    scales = None
    if attention is not None:
        scales = tf.TensorArray(tf.float32, size=most, element_shape=(None, 1))
        scales = scales.unstack(tf.transpose(attention.padded)[:, :, None])

    def step(t, h, outputs):
        new = cell(inputs.read(t), h, *weights, None if scales is None else scales.read(t))  # [B, H]
        valid = (t < lengths)[:, None]  # [B, 1]
        return t + 1, tf.where(valid, new, h), outputs.write(t, tf.where(valid, new, 0.0))

    def loop():
        _, last, all_outputs = tf.while_loop(lambda t, *_: t < most, step, (tf.constant(0), zeros, outputs))
        return tf.transpose(all_outputs.stack(), (1, 0, 2)), last  # [B, T, H], [B, H]

    # A TensorArray without any write has no shape to stack.
    states, last = tf.cond(most > 0, loop, lambda: (tf.zeros((rows, 0, hidden)), zeros))
    return Events(x.splits, padded=states), last


def fused(x: Events, gates_kernel, gates_bias, candidate_kernel, candidate_bias, attention: Events | None = None):
    """The compiled op; differentiable in x, the attention and all weights.

    Raises:
        InvalidArgumentError: shapes do not agree, or splits are invalid. NativeLibraryError: there is no compiled library.
    """
    outputs, last, _ = _native.library().ops.ctrlab_gru(
        x=x.flat,
        splits=x.splits,
        gates_kernel=gates_kernel,
        gates_bias=gates_bias,
        candidate_kernel=candidate_kernel,
        candidate_bias=candidate_bias,
        attention=[] if attention is None else [attention.flat],
    )
    return Events(x.splits, flat=outputs), last


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


OP = Op("gru", rung="gru", part="gru", definition=definition, baseline=baseline, fused=fused)
AUGRU = dataclasses.replace(OP, name="augru", rung="augru")
