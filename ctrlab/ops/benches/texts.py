"""Helpers that the benches of the parsing ops share."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

BATCHES = 8
"""Number of batches that are made; each call takes one of them, with its rows rotated."""


def bytes_of(*texts: tf.Tensor) -> float:
    return float(sum(tf.reduce_sum(tf.strings.length(text)) for text in texts))


def step(way: Callable, columns) -> Callable:
    @tf.function(autograph=False)
    def parse(*values):
        return tf.nest.flatten(way(columns, values), expand_composites=True)

    return parse
