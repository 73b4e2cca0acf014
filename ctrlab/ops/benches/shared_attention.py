"""Benches of attention over a shared history: the contest's unit, 144-80-40-1, on one user and 200 candidates. Forward alone."""

from __future__ import annotations

import functools
import itertools

import tensorflow as tf

from ctrlab.ops.benches.attention import UNITS, WIDTH
from ctrlab.ops.benches.bench import Bench, random
from ctrlab.ops.events import Events
from ctrlab.ops.shared_attention import OP

CANDIDATES, LENGTHS = 200, (10, 50, 100)


def of_one_user(length: int, candidates: int = CANDIDATES, small: bool = False) -> Bench:
    """A request: one history, and the candidates to be ranked."""
    if small:
        length, candidates = 3, 4
    layers = [random(i, (i, o), (o,), scale=i**-0.5) for i, o in itertools.pairwise((4 * WIDTH, *UNITS, 1))]
    splits, counts = tf.constant([0, length], tf.int64), tf.constant([candidates], tf.int64)

    def step(way):
        return tf.function(lambda query, keys: way(query, Events(splits, flat=keys), counts, layers), autograph=False)

    return Bench(
        shape=f"N={candidates}, T={length}, C={WIDTH}, units {UNITS[0]}-{UNITS[1]}-1",
        variants={name: step(way) for name, way in OP.ways.items()},
        make_inputs=lambda call: tuple(random(call, (candidates, WIDTH), (length, WIDTH))),
        work=OP.work(candidates, length, candidates * length, WIDTH, UNITS),
    )


BENCHES = {f"shared_attention_{length}": functools.partial(of_one_user, length) for length in LENGTHS} | {
    "shared_attention_one": functools.partial(of_one_user, 50, candidates=1)
}
