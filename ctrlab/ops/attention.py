"""DIN's activation unit: how much each event of a history matters to a query. Softmax weights over each row's own events.

    s_t = MLP([q, k_t, q - k_t, q * k_t])          sigmoid layers, the last one linear
    a_t = exp(s_t) / sum over valid t' of exp(s_t')

    Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018; softmax as in its published code.

Past a row's end the weight is exactly 0, so a row without events has no weight anywhere, and what is summed with these
weights is then the zero vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from ctrlab.profiling.parts import part


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
def stock(query, keys, lengths, layers: Sequence[tuple]) -> tf.Tensor:
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
