"""Benches of DeepFM's and DLRM's interactions, at the contest's 26 fields of 16."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ctrlab.ops import dot_interaction, factorization_machine
from ctrlab.ops.benches.bench import Bench
from ctrlab.profiling.roofline import Work

FIELDS, DIM = 26, 16


def machine(small: bool = False, rows: int = 2048) -> Bench:
    """DeepFM's second order."""
    rows = 64 if small else rows
    implementations = factorization_machine.OP.ways
    # Fields read twice and their gradient written; out written and its gradient read.
    floats = rows * DIM * (3 * FIELDS + 2)
    variants = {name: _forward_backward(functools.partial(op, dim=DIM)) for name, op in implementations.items()}
    return Bench(
        shape=f"B={rows}, F={FIELDS}, D={DIM}",
        variants={"baseline": variants["baseline"], "baseline, XLA": _compiled(variants["baseline"]), "fused": variants["fused"]},
        make_inputs=lambda call: _random(call, (rows, FIELDS * DIM), (rows, DIM)),
        work=Work(flops=rows * DIM * (3.0 * FIELDS + 3.0 * FIELDS), bytes=4.0 * floats),
    )


def dots(small: bool = False, rows: int = 2048) -> Bench:
    """DLRM's pairs, with a bottom vector."""
    rows, vectors = 64 if small else rows, FIELDS + 1
    pairs = vectors * (vectors - 1) // 2
    implementations = dot_interaction.OP.ways
    variants = {name: _forward_backward(functools.partial(op, dim=DIM)) for name, op in implementations.items()}
    return Bench(
        shape=f"B={rows}, F={FIELDS}, D={DIM}",
        variants={
            "baseline": variants["baseline"],
            "baseline, XLA": _compiled(variants["baseline"]),
            "masked": variants["masked"],
            "fused": variants["fused"],
        },
        make_inputs=lambda call: _random(call, (rows, DIM), (rows, FIELDS * DIM), (rows, DIM + pairs)),
        work=Work(flops=6.0 * rows * pairs * DIM, bytes=4.0 * rows * (3 * vectors * DIM + 2 * (DIM + pairs))),
    )


def _random(call: int, *shapes) -> tuple:
    rng = np.random.default_rng(call)
    return tuple(tf.constant(rng.standard_normal(shape, dtype=np.float32)) for shape in shapes)


def _forward_backward(op: Callable) -> Callable:
    """A step of (inputs, d_out)."""

    @functools.partial(tf.function, autograph=False)
    def step(*inputs):
        *inputs, d_out = inputs
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            out = op(*inputs)
        return out, tape.gradient(out, inputs, output_gradients=d_out)

    return step


def _compiled(step: Callable) -> Callable:
    return tf.function(step.python_function, autograph=False, jit_compile=True)


BENCHES = {
    "factorization_machine": machine,
    "factorization_machine_128": functools.partial(machine, rows=128),
    "dot_interaction": dots,
    "dot_interaction_128": functools.partial(dots, rows=128),
}
