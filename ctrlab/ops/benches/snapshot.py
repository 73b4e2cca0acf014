"""Bench of the snapshot: tables with Adam's two slots, as a checkpoint holds them."""

from __future__ import annotations

import tensorflow as tf

from ctrlab.ops import snapshot
from ctrlab.ops.benches.bench import Bench


def of_the_tables(small: bool = False) -> Bench:
    """WDL's tables and slots on food_delivery: 13 of [100,000, 16], three times."""
    return _bench(3 if small else 39, 1_000 if small else 100_000, 16)


def of_the_towers(small: bool = False) -> Bench:
    """Many small arrays, where the fixed cost per array dominates: 120 of [256, 64]."""
    return _bench(12 if small else 120, 256, 64)


def _bench(count: int, rows: int, dim: int) -> Bench:
    sources = [tf.Variable(tf.ones([rows, dim])) for _ in range(count)]
    for source in sources:  # as after a sparse update: every read of the variable then makes a copy
        source.scatter_update(tf.IndexedSlices(tf.zeros([1, dim]), [0]))
    targets = [tf.Variable(tf.zeros([rows, dim])) for _ in range(count)]
    assign = tf.function(lambda: snapshot.baseline(sources, targets))
    return Bench(
        shape=f"{count} arrays of [{rows:,}, {dim}], {4e-6 * count * rows * dim:.0f} MB",
        variants={
            "baseline": lambda: snapshot.baseline(sources, targets),
            "one graph": lambda: assign(),
            "numpy": lambda: [v.numpy() for v in sources],
            "fused": lambda: snapshot.fused(sources, targets),
        },
        make_inputs=lambda call: (),
        work=snapshot.OP.work(count * rows * dim),
    )


BENCHES = {"snapshot": of_the_tables, "snapshot_small": of_the_towers}
