"""DIN's activation unit: how much each event of a history matters to a query. Softmax weights over each example's own events.

    s_t = MLP([q, k_t, q - k_t, q * k_t])          sigmoid layers, the last one linear
    a_t = exp(s_t) / sum over valid t' of exp(s_t')

    Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018; softmax as in its published code.

Padding gets weight exactly 0. So an example without events has no weights, and the weighted sum is the zero vector.

Every way takes

    query: float32 [B, C].
    keys: `Events`, C wide.
    layers: the MLP's (kernel [in, out], bias [out]) pairs, 4C wide at the bottom and 1 at the top; sigmoid between.

and returns the weights, `Events` with one number each, and attended, float32 [B, C], the sum of each example's weights * keys.
The baseline pads the histories. The other ways process only the existing events. The fused op never builds the MLP's input. The
first layer's kernel is [Wq; Wk; Wd; Wp], and

    [q, k, q - k, q * k] W = q (Wq + Wd) + k (Wk - Wd + diag(q) Wp)

needs one [C, units] matrix per example and one product of C numbers per event, where the full input has 4C.

This form loses precision: q Wd - k Wd cancels if q and k are far from 0 and close to each other. The loss matters in a layer with
a unit where |Wd| > |Wq| + |Wk|, for an example with an event where |k - q| < |k| / 2. Then the expression is expanded around q:

    [q, k, q - k, q * k] W = q (Wq + Wk + diag(q) Wp) + (k - q) (Wk - Wd + diag(q) Wp)

In both forms the error of a unit's sum is at most 6 times the possible error of a float32 product of the 4C numbers, taken for
the example's worst event: 6 C 2^-24 (|q| |Wq| + |k| |Wk| + |q - k| |Wd| + |q| |k| |Wp|), in L2 norms, with the unit's columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops.events import Events
from ctrlab.ops.op import Op
from ctrlab.ops.references import attention as definition

Layers = Sequence[tuple[tf.Tensor, tf.Tensor]]


def baseline(query: tf.Tensor, keys: Events, layers: Layers) -> tuple[Events, tf.Tensor]:
    """All B x T cells, padding included, through the MLP; then a masked softmax."""
    rows, most, width = tf.shape(keys.padded)[0], tf.shape(keys.padded)[1], query.shape[1]
    q = tf.broadcast_to(query[:, None, :], tf.shape(keys.padded))  # [B, T, C]
    x = tf.concat([q, keys.padded, q - keys.padded, q * keys.padded], axis=2)  # [B, T, 4C]
    x = tf.reshape(x, (-1, 4 * width))  # [B * T, 4C]: one matrix multiplication per layer
    for kernel, bias in layers[:-1]:
        x = tf.sigmoid(tf.matmul(x, kernel) + bias)  # [B * T, units]
    kernel, bias = layers[-1]
    scores = tf.reshape(tf.matmul(x, kernel) + bias, (rows, most))  # [B, T]
    valid = tf.sequence_mask(keys.lengths, most)  # [B, T]
    weights = tf.nn.softmax(tf.where(valid, scores, -(2.0**32) + 1))
    # A softmax over masked cells only gives 1 / T in each of them, not 0.
    weights = tf.where(valid, weights, 0.0)
    attended = tf.squeeze(tf.matmul(weights[:, None, :], keys.padded), 1)  # [B, 1, T] x [B, T, C] -> [B, C]
    return Events(keys.splits, padded=weights), attended


def best_stock(query: tf.Tensor, keys: Events, layers: Layers) -> tuple[Events, tf.Tensor]:
    """Without padding: the MLP runs on the N events only; softmax and sum are segment ops."""
    rows = tf.shape(query)[0]
    row_of = tf.repeat(tf.range(rows), keys.lengths)  # [N]
    q = tf.gather(query, row_of)  # [N, C]
    x = tf.concat([q, keys.flat, q - keys.flat, q * keys.flat], axis=1)  # [N, 4C]
    for kernel, bias in layers[:-1]:
        x = tf.sigmoid(tf.matmul(x, kernel) + bias)  # [N, units]
    kernel, bias = layers[-1]
    scores = tf.squeeze(tf.matmul(x, kernel) + bias, 1)  # [N]
    most = tf.stop_gradient(tf.gather(tf.math.unsorted_segment_max(scores, row_of, rows), row_of))
    e = tf.exp(scores - most)
    weights = e / tf.gather(tf.math.unsorted_segment_sum(e, row_of, rows), row_of)  # [N]
    return Events(keys.splits, flat=weights), tf.math.unsorted_segment_sum(weights[:, None] * keys.flat, row_of, rows)


def fused(query: tf.Tensor, keys: Events, layers: Layers) -> tuple[Events, tf.Tensor]:
    """The compiled op, differentiable in everything but the splits. It takes any number of sigmoid layers of any width.

    Raises:
        CtrlabError: there is no layer. InvalidArgumentError: shapes or splits do not agree. NativeLibraryError: there is no
        compiled library for this TensorFlow.
    """
    if not layers:
        raise CtrlabError("Attention needs at least the layer that gives the score; received no layers.")
    kernels, biases = zip(*layers)
    weights, attended, _ = _native.library().ops.ctrlab_attention(
        query=query, keys=keys.flat, splits=keys.splits, kernels=kernels, biases=biases
    )
    return Events(keys.splits, flat=weights), attended


@tf.RegisterGradient("Ctrlab>Attention")
def _fused_gradient(op: tf.Operation, d_weights: tf.Tensor, d_attended: tf.Tensor, _) -> list[tf.Tensor | None]:
    count, inputs = op.get_attr("L"), list(op.inputs)
    query, keys, splits, layers = *inputs[:3], inputs[3:]
    d_query, d_keys, d_kernels, d_biases = _native.library().ops.ctrlab_attention_gradient(
        query=query,
        keys=keys,
        splits=splits,
        kernels=layers[:count],
        biases=layers[count:],
        weights=op.outputs[0],
        kept=op.outputs[2],
        d_weights=d_weights,
        d_attended=d_attended,
    )
    return [d_query, d_keys, None, *d_kernels, *d_biases]


OP = Op(
    "attention", rung="attention", part="attention", definition=definition, baseline=baseline, best_stock=best_stock, fused=fused
)
