"""Bench of the optimizer's step on dense weights; the benches of `lookup` measure the step on touched rows."""

from __future__ import annotations

import functools
import itertools

import tensorflow as tf

from ctrlab.ops.benches.bench import Bench, random
from ctrlab.ops.sparse_update import OP, Rule

SIZES = (272, 1024, 512, 256, 64, 1)


def of_a_tower(small: bool = False, kind: str = "adam_async") -> Bench:
    """The weights of WDL's deep tower."""
    rule, shapes = Rule(kind), [(i // 16 + 1, o) if small else (i, o) for i, o in itertools.pairwise(SIZES)]

    def step(way):
        weights = [tf.Variable(w) for w in random(0, *shapes)]
        slots = [{name: tf.Variable(tf.fill(w.shape, value)) for name, value in rule.slots.items()} for w in weights]
        return tf.function(lambda *g: way(rule, list(zip(weights, slots, g)), 0.01, 1.0) and None, autograph=False)

    return Bench(
        shape=f"{'-'.join(map(str, SIZES))}, {kind}",
        variants={name: step(way) for name, way in OP.ways.items()},
        make_inputs=lambda call: tuple(random(call, *shapes)),
        work=OP.work(sum(i * o for i, o in shapes), len(rule.slots)),
    )


BENCHES = {"update": of_a_tower, "update_adagrad": functools.partial(of_a_tower, kind="adagrad")}
