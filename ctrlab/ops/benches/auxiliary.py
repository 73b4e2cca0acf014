"""Benches of DIEN's auxiliary loss with the contest's net, 72-100-50-1, at the lengths of real histories."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.ops import auxiliary
from ctrlab.ops.benches.bench import Bench
from ctrlab.ops.benches.histories import real_lengths
from ctrlab.ops.events import Events

WIDTH, UNITS = 36, (100, 50)


def at_real_lengths(small: bool = False) -> Bench:
    """DIEN's batch on the reviews."""
    return _bench(16 if small else 512)


def small_batch(small: bool = False) -> Bench:
    """The same with B=128."""
    return _bench(16 if small else 128)


def _bench(rows: int) -> Bench:
    rng = np.random.default_rng(0)
    lengths = real_lengths(rng, rows)
    events, positions = int(lengths.sum()), int((lengths - 1).sum())
    splits = tf.constant(np.concatenate([[0], np.cumsum(lengths)]))
    sizes = (2 * WIDTH, *UNITS, 1)
    layers = [(_random(rng, i, o) / np.float32(np.sqrt(i)), _random(rng, o)) for i, o in itertools.pairwise(sizes)]
    weights = tf.ones(2 * WIDTH), tf.zeros(2 * WIDTH), layers

    def make_inputs(call: int) -> tuple:
        rng = np.random.default_rng(call)
        interests, clicked, skipped = (_random(rng, events, WIDTH) for _ in range(3))
        return interests, tf.RaggedTensor.from_row_splits(interests, splits).to_tensor(), clicked, skipped

    made = functools.partial(Events, splits)

    def of(flat: tf.Tensor) -> Events:
        return made(flat=flat)

    return Bench(
        shape=f"B={rows}, N={events}, M={positions}, H=C={WIDTH}, units {UNITS[0]}-{UNITS[1]}-1",
        variants={
            "baseline": _step(
                lambda flat, padded, *both: auxiliary.baseline(made(padded=padded), *map(of, both), *weights), weights
            ),
            "fused": _step(lambda flat, padded, *both: auxiliary.fused(of(flat), *map(of, both), *weights), weights),
        },
        make_inputs=make_inputs,
        work=auxiliary.OP.work(events, positions, WIDTH, WIDTH, UNITS),
    )


def _random(rng: np.random.Generator, *shape: int) -> tf.Tensor:
    return tf.constant(rng.standard_normal(shape, dtype=np.float32))


def _step(loss_of: Callable, weights) -> Callable:
    """(flat interests, padded ones, clicked, skipped) -> the loss and its gradients in the inputs and weights."""

    @functools.partial(tf.function, autograph=False)
    def step(*inputs):
        sources = [*inputs, *tf.nest.flatten(weights)]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            loss = loss_of(*inputs)
        return loss, [g for g in tape.gradient(loss, sources) if g is not None]

    return step


BENCHES = {"auxiliary": at_real_lengths, "auxiliary_128": small_batch}
