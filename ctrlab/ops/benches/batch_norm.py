"""Benches of batch normalisation after a layer's ReLU."""

from __future__ import annotations

import tensorflow as tf

from ctrlab.ops.batch_norm import OP
from ctrlab.ops.benches.bench import Bench, random, variants


def at_the_models_shape(small: bool = False) -> Bench:
    """The first layer of DeepFM's deep part and of DLRM's bottom."""
    return _bench(64 if small else 512, 512)


def at_a_small_batch(small: bool = False) -> Bench:
    """The third layer of DLRM's bottom with few rows, where the fixed cost of starting an op dominates."""
    return _bench(32 if small else 128, 64)


def _bench(rows: int, columns: int) -> Bench:
    def batch(call: int) -> tuple:
        product, d_out = random(call, (rows, columns), (rows, columns))
        return [product], [d_out]

    return Bench(
        shape=f"B={rows}, n={columns}",
        variants=variants(OP, weights=[tf.fill([columns], x) for x in (0.1, 1.0, 0.0, 0.0, 1.0)], xla=True),
        make_inputs=batch,
        work=OP.work(rows, columns),
    )


BENCHES = {"batch_norm": at_the_models_shape, "batch_norm_small": at_a_small_batch}
