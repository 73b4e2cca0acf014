"""Benches of bias and activation."""

from __future__ import annotations

import tensorflow as tf

from ctrlab.ops.benches.bench import Bench, random, variants
from ctrlab.ops.pointwise import OP
from ctrlab.ops.references.pointwise import SLOPED


def relu(small: bool = False) -> Bench:
    """WDL's widest layer."""
    return _bench("relu", 64 if small else 512, 1024)


def prelu(small: bool = False) -> Bench:
    """DIN's query with few examples."""
    return _bench("prelu", 32 if small else 128, 36)


def _bench(kind: str, rows: int, columns: int) -> Bench:
    def batch(call: int) -> tuple:
        x, d_out = random(call, (rows, columns), (rows, columns))
        return [x], d_out

    return Bench(
        shape=f"{kind}, B={rows}, n={columns}",
        variants=variants(OP, (kind,), [tf.fill([columns], 0.1) for _ in range(1 + (kind in SLOPED))], xla=True),
        make_inputs=batch,
        work=OP.work(rows, columns),
    )


BENCHES = {"relu": relu, "prelu": prelu}
