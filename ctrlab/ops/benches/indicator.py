"""Benches of the indicator column."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.ops import indicator
from ctrlab.ops.benches.bench import Bench


def at_the_models_shape(small: bool = False) -> Bench:
    """DeepFM's linear term at the contest's size: 15 hashed columns, the time type and its history, one output."""
    rows, sizes = (64 if small else 512), [10_000] * 15 + [5, 5]
    lengths = [1] * 14 + [20, 1, 20]  # the histories of time differences and of time types
    return _bench(rows, sizes, lengths, outputs=1)


def before_a_dense_layer(small: bool = False) -> Bench:
    """Tags before a dense layer: one column of V = 10,000, 30 tags per example, 64 outputs."""
    return _bench(64 if small else 2048, [10_000], [30], outputs=64)


def _bench(rows: int, sizes: list[int], lengths: list[int], outputs: int) -> Bench:
    def batch(call: int) -> tuple:
        rng = np.random.default_rng(call)
        columns = []
        for size, length in zip(sizes, lengths):
            ids = tf.constant(rng.integers(0, size, rows * length))
            columns.append(ids if length == 1 else tf.RaggedTensor.from_uniform_row_length(ids, length))
        return columns, tf.constant(rng.standard_normal((rows, outputs), dtype=np.float32))

    kernel = tf.constant(np.random.default_rng(0).standard_normal((sum(sizes), outputs), dtype=np.float32))
    hits = rows * sum(lengths)
    return Bench(
        shape=f"B={rows}, V={sum(sizes)}, C={len(sizes)}, {hits // rows} ids a row, O={outputs}",
        variants={name: _forward_backward(product, sizes, kernel, batch(0)) for name, product in indicator.OP.ways.items()},
        make_inputs=lambda call: tuple(tf.nest.flatten(batch(call), expand_composites=True)),
        work=indicator.OP.work(rows, hits, sum(sizes), outputs),
    )


def _forward_backward(product: Callable, sizes: list[int], kernel: tf.Tensor, like: tuple) -> Callable:
    """A step that takes the columns as a flat list, then d_out. In a model ids come from other ops in the graph. Passing nested
    ragged tensors into a tf.function would cost more than the op does."""

    @functools.partial(tf.function, autograph=False)
    def step(*flat):
        columns, d_out = tf.nest.pack_sequence_as(like, flat, expand_composites=True)
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            out = product(columns, sizes, kernel)
        return out, tape.gradient(out, kernel, output_gradients=d_out)

    return step


BENCHES = {"indicator": at_the_models_shape, "indicator_64": before_a_dense_layer}
