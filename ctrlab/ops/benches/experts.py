"""Benches of MMoE's experts and of their mixture, at DeepRec's sizes: 272 numbers in, four experts, two tasks."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.ops import experts, mixture
from ctrlab.ops.benches.bench import Bench
from ctrlab.profiling.roofline import Work

SIZES, EXPERTS, TASKS = (272, 256, 192, 128, 64), 4, 2


def towers(small: bool = False, rows: int = 512) -> Bench:
    """The experts alone, from x to [E, B, H], with every gradient."""
    rows = 64 if small else rows
    layers = list(itertools.pairwise(SIZES))
    kernels = _random(0, *[(EXPERTS, i, o) for i, o in layers])
    biases = _random(1, *[(EXPERTS, 1, o) for i, o in layers])
    numbers = EXPERTS * sum(i * o for i, o in layers)
    implementations = experts.OP.ways
    variants = {name: _towers(op, kernels, biases) for name, op in implementations.items()}
    return Bench(
        shape=f"B={rows}, E={EXPERTS}, {'-'.join(map(str, SIZES))}",
        variants=_with_xla(variants),
        make_inputs=lambda call: _random(call, (rows, SIZES[0]), (EXPERTS, rows, SIZES[-1])),
        work=Work(flops=6.0 * rows * numbers, bytes=4.0 * (3 * numbers + rows * (2 * SIZES[0] + 2 * EXPERTS * SIZES[-1]))),
    )


def gates(small: bool = False, rows: int = 512) -> Bench:
    """Gates and mixture, from x and what the experts say to what each tower gets."""
    rows, width = 64 if small else rows, SIZES[-1]
    kernels, biases = _random(0, *[(SIZES[0], EXPERTS)] * TASKS), _random(1, *[(EXPERTS,)] * TASKS)
    variants = {name: _gates(op, kernels, biases) for name, op in mixture.OP.ways.items()}
    products = TASKS * EXPERTS * (SIZES[0] + width)
    return Bench(
        shape=f"B={rows}, E={EXPERTS}, K={TASKS}, H={width}",
        variants=_with_xla(variants),
        make_inputs=lambda call: _random(call, (rows, SIZES[0]), (EXPERTS, rows, width), *[(rows, width)] * TASKS),
        work=Work(flops=6.0 * rows * products, bytes=4.0 * rows * (3 * SIZES[0] + 3 * EXPERTS * width + 2 * TASKS * width)),
    )


def _towers(op: Callable, kernels, biases) -> Callable:
    @functools.partial(tf.function, autograph=False)
    def step(x, d_out):
        with tf.GradientTape() as tape:
            tape.watch([x, kernels, biases])
            out = op(x, kernels, biases)
        return out, tape.gradient(out, [x, kernels, biases], output_gradients=d_out)

    return step


def _gates(op: Callable, kernels, biases) -> Callable:
    @functools.partial(tf.function, autograph=False)
    def step(x, said, *d_out):
        with tf.GradientTape() as tape:
            tape.watch([x, said, kernels, biases])
            out = op(x, said, kernels, biases)
        return out, tape.gradient(out, [x, said, kernels, biases], output_gradients=list(d_out))

    return step


def _with_xla(variants: dict[str, Callable]) -> dict[str, Callable]:
    """The variants, and stock compiled by XLA after it."""
    compiled = tf.function(variants["baseline"].python_function, autograph=False, jit_compile=True)
    return {"baseline": variants["baseline"], "baseline, XLA": compiled} | variants


def _random(call: int, *shapes) -> tuple:
    rng = np.random.default_rng(call)
    return tuple(tf.constant(rng.standard_normal(shape, dtype=np.float32) * np.float32(0.1)) for shape in shapes)


BENCHES = {
    "experts": towers,
    "experts_128": functools.partial(towers, rows=128),
    "mixture": gates,
    "mixture_128": functools.partial(gates, rows=128),
}
