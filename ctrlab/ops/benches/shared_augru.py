"""Benches of an AUGRU over a shared history: DIEN's widths, one user and 200 candidates. Forward alone."""

from __future__ import annotations

import functools

import tensorflow as tf

from ctrlab.ops.benches.bench import Bench, random
from ctrlab.ops.benches.gru import HIDDEN, WIDTH
from ctrlab.ops.benches.shared_attention import CANDIDATES, LENGTHS
from ctrlab.ops.events import Events
from ctrlab.ops.shared_augru import OP


def of_one_user(length: int, candidates: int = CANDIDATES, small: bool = False) -> Bench:
    """A request: one history, and attention for each of the candidates."""
    if small:
        length, candidates = 3, 4
    joined = WIDTH + HIDDEN
    weights = random(0, (joined, 2 * HIDDEN), (2 * HIDDEN,), (joined, HIDDEN), (HIDDEN,), scale=0.15)
    splits, counts = tf.constant([0, length], tf.int64), tf.constant([candidates], tf.int64)

    def step(way):
        return tf.function(lambda x, attention: way(Events(splits, flat=x), counts, *weights, attention), autograph=False)

    def request(call: int) -> tuple:
        x, numbers = random(call, (length, WIDTH), (candidates * length,))
        return x, tf.abs(tf.tanh(numbers))

    return Bench(
        shape=f"N={candidates}, T={length}, C={WIDTH}, H={HIDDEN}",
        variants={name: step(way) for name, way in OP.ways.items()},
        make_inputs=request,
        work=OP.work(candidates, length, candidates * length, WIDTH, HIDDEN),
    )


BENCHES = {f"shared_augru_{length}": functools.partial(of_one_user, length) for length in LENGTHS} | {
    "shared_augru_one": functools.partial(of_one_user, 50, candidates=1)
}
