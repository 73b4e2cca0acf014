"""The description of a bench of an op, and its paired run, forward and backward, against the machine's ceilings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab.ops.op import Op
from ctrlab.profiling.roofline import Ceilings, Work
from ctrlab.profiling.timing import Interval, Measurement, compare


@dataclass(frozen=True)
class Bench:
    """One bench of one op.

    Attributes:
        shape: the sizes, in words.
        variants: name -> function of the inputs that runs forward and backward; the first is the baseline.
        make_inputs: number of the call -> its inputs.
        work: the least work of one call.
    """

    shape: str
    variants: dict[str, Callable]
    make_inputs: Callable[[int], tuple]
    work: Work


def variants(op: Op, first=(), weights: Sequence = (), last=(), xla: bool = False) -> dict[str, Callable]:
    """For each way of an op, a step (inputs, d_out) -> the output for (*first, *inputs, *weights, *last), and the gradients of
    inputs and weights; with `xla` also the baseline compiled by XLA."""

    def step(way: Callable, **options) -> Callable:
        @functools.partial(tf.function, autograph=False, **options)
        def step(inputs, d_out):
            sources = [list(inputs), list(weights)]
            with tf.GradientTape() as tape:
                tape.watch(sources)
                out = way(*first, *inputs, *weights, *last)
            target = out if op.differentiable is None else out[: op.differentiable]
            return out, tape.gradient(target, sources, output_gradients=d_out, unconnected_gradients="zero")

        return step

    compiled = {"baseline, XLA": step(op.baseline, jit_compile=True)} if xla else {}
    steps = {name: step(way) for name, way in op.ways.items()}
    return {"baseline": steps["baseline"]} | compiled | steps


def random(call: int, *shapes: Sequence[int], scale: float = 1.0) -> list[tf.Tensor]:
    """float32 from a normal distribution; equal call numbers give equal numbers."""
    rng = np.random.default_rng(call)
    return [tf.constant(np.float32(scale) * rng.standard_normal(shape, dtype=np.float32)) for shape in shapes]


@dataclass(frozen=True)
class Row:
    """One variant of one bench: its time, and its speed relative to every variant above it (the baseline first).

    Attributes:
        closed: {variant above: the percentage of its distance from the bound that this one has closed}.
    """

    bench: str
    shape: str
    variant: str
    measurement: Measurement
    speedup: dict[str, Interval]
    closed: dict[str, float]

    def to_json(self) -> dict:
        speedup = {name: vars(interval) for name, interval in self.speedup.items()}
        return {**vars(self), "measurement": self.measurement.to_json(), "speedup": speedup}


def run(name: str, bench: Bench, repetitions: int, limits: Ceilings) -> list[Row]:
    """One row per variant, in their order."""
    variants = list(bench.variants)
    comparison = compare(
        bench.variants,
        bench.make_inputs,
        baseline=variants[0],
        repetitions=repetitions,
        work=bench.work,
        ceilings=limits,
    )
    rows = []
    for i, variant in enumerate(variants):
        speedup = {other: comparison.ratio(variant, to=other) for other in variants[:i]}
        measured = comparison[variant]
        above = {other: comparison[other].median for other in speedup}
        closed = {other: 100 * (slower - measured.median) / (slower - measured.bound) for other, slower in above.items()}
        rows.append(Row(name, bench.shape, variant, measured, speedup, closed))
    return rows
