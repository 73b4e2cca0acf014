"""Benches of batch normalisation after a layer's ReLU."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.ops import batch_norm
from ctrlab.ops.benches.bench import Bench
from ctrlab.profiling.roofline import Work


def at_the_models_shape(small: bool = False) -> Bench:
    """The first layer of DeepFM's deep part and of DLRM's bottom."""
    return _bench(64 if small else 512, 512)


def at_a_small_batch(small: bool = False) -> Bench:
    """The third layer of DLRM's bottom with few rows, where what an op costs to start is most of it."""
    return _bench(32 if small else 128, 64)


def _bench(rows: int, columns: int) -> Bench:
    def batch(call: int) -> tuple:
        rng = np.random.default_rng(call)
        return tuple(tf.constant(rng.standard_normal((rows, columns), dtype=np.float32)) for _ in range(2))  # product, d_out

    # Forward reads product and writes out; backward reads product and d_out and writes d_product. The vectors are nothing.
    # Arithmetic: at least 9 forward and 15 backward an entry.
    work = Work(flops=24.0 * rows * columns, bytes=5 * 4.0 * rows * columns)
    return Bench(
        shape=f"B={rows}, n={columns}",
        variants={
            "baseline": _forward_backward(batch_norm.baseline, columns),
            "XLA": _forward_backward(batch_norm.baseline, columns, jit_compile=True),
            "fused": _forward_backward(batch_norm.fused, columns),
        },
        make_inputs=batch,
        work=work,
    )


def _forward_backward(norm: Callable, columns: int, **options) -> Callable:
    bias, scale, shift, mean, variance = (tf.fill([columns], x) for x in (0.1, 1.0, 0.0, 0.0, 1.0))

    @functools.partial(tf.function, autograph=False, **options)
    def step(product, d_out):
        with tf.GradientTape() as tape:
            tape.watch([product, bias, scale, shift])
            out, *moved = norm(product, bias, scale, shift, mean, variance)
        return out, moved, tape.gradient(out, [product, bias, scale, shift], output_gradients=d_out)

    return step


BENCHES = {"batch_norm": at_the_models_shape, "batch_norm_small": at_a_small_batch}
