"""Ops over histories as functions of tensors: end to end with splits, or padded with lengths."""

import functools

import tensorflow as tf

from ctrlab.ops import attention
from ctrlab.ops.events import Events


def splits_of(lengths):
    return tf.concat([[0], tf.cumsum(tf.cast(lengths, tf.int64))], 0)


def flat_attention(way):
    """(query, keys [N, C], splits, layers) -> weights [N], attended [B, C]."""

    @functools.wraps(way)
    def on_tensors(query, keys, splits, layers):
        weights, attended = way(query, Events(splits, flat=keys), layers)
        return weights.flat, attended

    return on_tensors


def padded_attention(query, keys, lengths, layers):
    """The baseline: keys [B, T, C] -> weights [B, T]."""
    return attention.baseline(query, Events(splits_of(lengths), padded=keys), layers)[0].padded


def flat_gru(way):
    """(x [N, C], splits, the four weights, attention [N] or None) -> outputs [N, H], last [B, H]."""

    @functools.wraps(way)
    def on_tensors(x, splits, *weights, attention=None):
        if len(weights) > 4:
            *weights, attention = weights
        outputs, last = way(Events(splits, flat=x), *weights, None if attention is None else Events(splits, flat=attention))
        return outputs.flat, last

    return on_tensors


def flat_auxiliary(way):
    """(interests, clicked, skipped, each [N, .], splits, scale, shift, layers) -> the loss."""

    @functools.wraps(way)
    def on_tensors(interests, clicked, skipped, splits, *weights):
        return way(*(Events(splits, flat=x) for x in (interests, clicked, skipped)), *weights)

    return on_tensors
