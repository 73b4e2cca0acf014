"""Benches of bias and activation."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.ops import pointwise
from ctrlab.ops.benches.bench import Bench
from ctrlab.profiling.roofline import Work


def relu(small: bool = False) -> Bench:
    """WDL's widest layer."""
    return _bench("relu", 64 if small else 512, 1024)


def prelu(small: bool = False) -> Bench:
    """DIN's query with few rows."""
    return _bench("prelu", 32 if small else 128, 36)


def _bench(kind: str, rows: int, columns: int) -> Bench:
    def batch(call: int) -> tuple:
        rng = np.random.default_rng(call)
        return tuple(tf.constant(rng.standard_normal((rows, columns), dtype=np.float32)) for _ in range(2))  # x, d_out

    return Bench(
        shape=f"{kind}, B={rows}, n={columns}",
        variants={
            "baseline": _forward_backward(pointwise.baseline, kind, columns),
            "XLA": _forward_backward(pointwise.baseline, kind, columns, jit_compile=True),
            "fused": _forward_backward(pointwise.fused, kind, columns),
        },
        make_inputs=batch,
        # Forward reads x and writes out; backward reads one of them and d_out and writes d_x.
        work=Work(flops=5.0 * rows * columns, bytes=5 * 4.0 * rows * columns),
    )


def _forward_backward(op: Callable, kind: str, columns: int, **options) -> Callable:
    weights = [tf.fill([columns], 0.1) for _ in range(1 + (kind in pointwise.SLOPED))]

    @functools.partial(tf.function, autograph=False, **options)
    def step(x, d_out):
        with tf.GradientTape() as tape:
            tape.watch([x, *weights])
            out = op(kind, x, *weights)
        return out, tape.gradient(out, [x, *weights], output_gradients=d_out)

    return step


BENCHES = {"relu": relu, "prelu": prelu}
