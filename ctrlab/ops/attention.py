"""DIN's activation unit: how much each event of a history matters to a query. Softmax weights over each row's own events.

    s_t = MLP([q, k_t, q - k_t, q * k_t])          sigmoid layers, the last one linear
    a_t = exp(s_t) / sum over valid t' of exp(s_t')

    Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018; softmax as in its published code.

Past a row's end the weight is exactly 0, so a row without events has no weight anywhere, and what is summed with these
weights is then the zero vector.

`reference` and `stock` take the padded keys [B, T, C]; `ragged` and `fused` take the events that are there, [N, C], and give
the weighted sum, too. The fused op never makes the MLP's input. The first layer's kernel is [Wq; Wk; Wd; Wp], and

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

import numpy as np
import tensorflow as tf

from ctrlab.errors import CtrlabError
from ctrlab.ops import _native
from ctrlab.profiling.parts import part

Layers = Sequence[tuple[tf.Tensor, tf.Tensor]]


def reference(query, keys, lengths, layers: Sequence[tuple]) -> np.ndarray:
    """The definition, one row and one event at a time, NumPy float64.

    Args:
        query: [B, C].
        keys: [B, T, C]; what lies past a row's length is never read.
        lengths: ints [B], 0 to T.
        layers: the MLP's (kernel [in, out], bias [out]) pairs, 4C wide at the bottom and 1 at the top.
    Returns:
        weights [B, T]; each row with an event sums to 1.
    """
    weights = np.zeros(keys.shape[:2])
    for b, length in enumerate(lengths):
        scores = np.zeros(length)
        for t in range(length):
            q, k = query[b], keys[b, t]
            x = np.concatenate([q, k, q - k, q * k])  # [4C]
            for kernel, bias in layers[:-1]:
                x = 1 / (1 + np.exp(-(x @ kernel + bias)))
            kernel, bias = layers[-1]
            scores[t] = (x @ kernel + bias)[0]
        if length:
            scores = np.exp(scores - scores.max())
            weights[b, :length] = scores / scores.sum()
    return weights


@part("attention")
def stock(query, keys, lengths, layers: Layers) -> tf.Tensor:
    """All B x T cells through the MLP, then a masked softmax: float32, otherwise as `reference`."""
    rows, most, width = tf.shape(keys)[0], tf.shape(keys)[1], keys.shape[2]
    q = tf.broadcast_to(query[:, None, :], tf.shape(keys))  # [B, T, C]
    x = tf.concat([q, keys, q - keys, q * keys], axis=2)  # [B, T, 4C]
    x = tf.reshape(x, (-1, 4 * width))  # [B * T, 4C]: one product a layer
    for kernel, bias in layers[:-1]:
        x = tf.sigmoid(tf.matmul(x, kernel) + bias)  # [B * T, units]
    kernel, bias = layers[-1]
    scores = tf.reshape(tf.matmul(x, kernel) + bias, (rows, most))  # [B, T]
    valid = tf.sequence_mask(lengths, most)  # [B, T]
    weights = tf.nn.softmax(tf.where(valid, scores, -(2.0**32) + 1))
    # A softmax over nothing but masked cells is 1 / T in each of them, not 0.
    return tf.where(valid, weights, 0.0)


@part("attention")
def ragged(query, keys, splits, layers: Layers) -> tuple[tf.Tensor, tf.Tensor]:
    """What stock TensorFlow can do without padding: the same input on the N events only, softmax and sum by segments.

    Args and returns: as `fused`.
    """
    rows = tf.shape(query)[0]
    row_of = tf.repeat(tf.range(rows), splits[1:] - splits[:-1])  # [N]
    q = tf.gather(query, row_of)  # [N, C]
    x = tf.concat([q, keys, q - keys, q * keys], axis=1)  # [N, 4C]
    for kernel, bias in layers[:-1]:
        x = tf.sigmoid(tf.matmul(x, kernel) + bias)  # [N, units]
    kernel, bias = layers[-1]
    scores = tf.squeeze(tf.matmul(x, kernel) + bias, 1)  # [N]
    most = tf.stop_gradient(tf.gather(tf.math.unsorted_segment_max(scores, row_of, rows), row_of))
    e = tf.exp(scores - most)
    weights = e / tf.gather(tf.math.unsorted_segment_sum(e, row_of, rows), row_of)  # [N]
    return weights, tf.math.unsorted_segment_sum(weights[:, None] * keys, row_of, rows)


@part("attention")
def fused(query, keys, splits, layers: Layers) -> tuple[tf.Tensor, tf.Tensor]:
    """The compiled op; differentiable in everything but the splits.

    Args:
        query: float32 [B, C].
        keys: float32 [N, C], all rows' events one after another.
        splits: int64 [B + 1]; row b's events are keys[splits[b] : splits[b + 1]].
        layers: as `reference`, float32; any number of sigmoid layers of any width.
    Returns:
        weights [N], each row's sum to 1; attended [B, C], the sum of each row's weights * keys, 0 where it has no event.
    Raises:
        CtrlabError: there is no layer. InvalidArgumentError: shapes or splits do not agree. NativeLibraryError: there is no
            compiled library for this TensorFlow.
    """
    if not layers:
        raise CtrlabError("Attention needs at least the layer that gives the score; received no layers.")
    kernels, biases = zip(*layers)
    return _native.library().ops.ctrlab_attention(query=query, keys=keys, splits=splits, kernels=kernels, biases=biases)[:2]


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
