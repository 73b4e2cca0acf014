"""Benches of ragged attention with the contest's unit, 144-80-40-1."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.ops import attention
from ctrlab.ops.benches.bench import Bench
from ctrlab.ops.benches.histories import LONGEST, real_lengths
from ctrlab.ops.events import Events

WIDTH, UNITS = 36, (80, 40)


def at_real_lengths(small: bool = False) -> Bench:
    """DIN's batch on the reviews: most histories are short, and padding makes all as long as the longest, 50."""
    return _bench(16 if small else 512)


def small_batch(small: bool = False) -> Bench:
    """The same with B=128."""
    return _bench(16 if small else 128)


def full_histories(small: bool = False) -> Bench:
    """All histories have full length, so there is no padding to save; what remains is the cheaper algebra."""
    return _bench(4 if small else 128, length=LONGEST)


def _bench(rows: int, length: int | None = None) -> Bench:
    lengths = np.full(rows, length) if length else real_lengths(np.random.default_rng(0), rows)
    events, rng = int(lengths.sum()), np.random.default_rng(0)
    sizes = (4 * WIDTH, *UNITS, 1)
    layers = [(_random(rng, i, o) / np.float32(np.sqrt(i)), _random(rng, o)) for i, o in itertools.pairwise(sizes)]
    splits = tf.constant(np.concatenate([[0], np.cumsum(lengths)]))

    def make_inputs(call: int) -> tuple:
        rng = np.random.default_rng(call)
        flat = tf.RaggedTensor.from_row_splits(_random(rng, events, WIDTH), splits)
        return _random(rng, rows, WIDTH), flat.values, flat.to_tensor(), _random(rng, rows, WIDTH)

    return Bench(
        shape=f"B={rows}, N={events}, T={lengths.max()}, C={WIDTH}, units {UNITS[0]}-{UNITS[1]}-1",
        variants={
            "baseline": _step(lambda q, _, padded: attention.baseline(q, Events(splits, padded=padded), layers)[1], layers),
            "stock": _step(lambda q, flat, _: attention.best_stock(q, Events(splits, flat=flat), layers)[1], layers),
            "fused": _step(lambda q, flat, _: attention.fused(q, Events(splits, flat=flat), layers)[1], layers),
        },
        make_inputs=make_inputs,
        work=attention.OP.work(rows, events, WIDTH, UNITS),
    )


def _random(rng: np.random.Generator, *shape: int) -> tf.Tensor:
    return tf.constant(rng.standard_normal(shape, dtype=np.float32))


def _step(attended: Callable, layers) -> Callable:
    """(query, flat keys, padded keys, d_attended) -> attended, and the gradients of query, of the keys in use and of the
    layers."""

    @functools.partial(tf.function, autograph=False)
    def step(query, flat, padded, d_attended):
        sources = [query, flat, padded, *tf.nest.flatten(layers)]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            out = attended(query, flat, padded)
        return out, [g for g in tape.gradient(out, sources, output_gradients=d_attended) if g is not None]

    return step


BENCHES = {
    "attention": at_real_lengths,
    "attention_128": small_batch,
    "attention_full": full_histories,
}
