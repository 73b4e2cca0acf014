"""Bench of the merge of a sparse gradient."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ctrlab.ops.benches.bench import Bench
from ctrlab.ops.merge import OP

ROWS, DIM = 100_000, 16


def of_bags(small: bool = False) -> Bench:
    """The gradient of one column with twenty ids per example."""
    ids = 320 if small else 512 * 20

    def batch(call: int) -> tuple:
        rng = np.random.default_rng(call)
        return tf.constant(rng.integers(0, ROWS, ids)), tf.constant(rng.standard_normal((ids, DIM), dtype=np.float32))

    def step(way):
        return tf.function(
            lambda ids, rows: way(tf.IndexedSlices(rows, ids), tf.TensorShape([ROWS, DIM])).values, autograph=False
        )

    return Bench(
        shape=f"n={ids}, V={ROWS}, D={DIM}",
        variants={name: step(way) for name, way in OP.ways.items()},
        make_inputs=batch,
        work=OP.work(ids, ROWS * (1 - (1 - 1 / ROWS) ** ids), DIM),
    )


BENCHES = {"merge": of_bags}
