"""DIN's activation unit: how much each event of a history matters to a query. Softmax weights over each row's own events.

    s_t = MLP([q, k_t, q - k_t, q * k_t])          sigmoid layers, the last one linear
    a_t = exp(s_t) / sum over valid t' of exp(s_t')

    Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018; softmax as in its published code.

Past a row's end the weight is exactly 0, so a row without events has no weight anywhere, and what is summed with these
weights is then the zero vector.

Every way takes

    query: float32 [B, C].
    keys: `Events`, C wide.
    layers: the MLP's (kernel [in, out], bias [out]) pairs, 4C wide at the bottom and 1 at the top; sigmoid between.

and returns the weights, `Events` of a number each, and attended, float32 [B, C], the sum of each row's weights * keys. The
baseline pads; the others go over the events that are there. The fused op never makes the MLP's input. The first layer's kernel is
[Wq; Wk; Wd; Wp], and

    [q, k, q - k, q * k] W = q (Wq + Wd) + k (Wk - Wd + diag(q) Wp)

is one [C, units] matrix a row and one product of C numbers an event, where the input has 4C.

Taken apart so, q Wd - k Wd cancels where q and k are far from 0 and near each other. Where that shows, in a layer that has a unit
with |Wd| > |Wq| + |Wk| and a row that has an event with |k - q| < |k| / 2, the row is taken apart around q instead:

    [q, k, q - k, q * k] W = q (Wq + Wk + diag(q) Wp) + (k - q) (Wk - Wd + diag(q) Wp)

Either way a unit's sum is off by at most 6 times what a float32 product of the 4C numbers may be off by, for the event of the row
where that is most: 6 C 2^-24 (|q| |Wq| + |k| |Wk| + |q - k| |Wd| + |q| |k| |Wp|), in L2 norms, of the unit's columns.
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
    """All B x T cells through the MLP, then a masked softmax."""
    rows, most, width = tf.shape(keys.padded)[0], tf.shape(keys.padded)[1], query.shape[1]
    q = tf.broadcast_to(query[:, None, :], tf.shape(keys.padded))  # [B, T, C]
    x = tf.concat([q, keys.padded, q - keys.padded, q * keys.padded], axis=2)  # [B, T, 4C]
    x = tf.reshape(x, (-1, 4 * width))  # [B * T, 4C]: one product a layer
    for kernel, bias in layers[:-1]:
        x = tf.sigmoid(tf.matmul(x, kernel) + bias)  # [B * T, units]
    kernel, bias = layers[-1]
    scores = tf.reshape(tf.matmul(x, kernel) + bias, (rows, most))  # [B, T]
    valid = tf.sequence_mask(keys.lengths, most)  # [B, T]
    weights = tf.nn.softmax(tf.where(valid, scores, -(2.0**32) + 1))
    # A softmax over nothing but masked cells is 1 / T in each of them, not 0.
    weights = tf.where(valid, weights, 0.0)
    attended = tf.squeeze(tf.matmul(weights[:, None, :], keys.padded), 1)  # [B, 1, T] x [B, T, C] -> [B, C]
    return Events(keys.splits, padded=weights), attended


def best_stock(query: tf.Tensor, keys: Events, layers: Layers) -> tuple[Events, tf.Tensor]:
    """Without padding: the same input on the N events only, softmax and sum by segments."""
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
    """The compiled op; differentiable in everything but the splits. Any number of sigmoid layers of any width.

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
