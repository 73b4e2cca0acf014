"""What the simulator takes from this machine: `ctrlab bench simulator`.

distinct    distinct ids of batches of generated rows, counted
seconds     a step of one process, by examples: the line through them is `fixed` and `per_example`
tensor      of a thread to hand a small tensor to TensorFlow, as a loop over devices does for each column
launches    of a step that stock TensorFlow makes of a model, and what XLA makes of it
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ctrlab import data, profiles, whole_batch
from ctrlab.distributed import require
from ctrlab.distributed.bench_worker import Job
from ctrlab.distributed.simulator.model import Distinct, line_through
from ctrlab.distributed.traffic import least
from ctrlab.models import build
from ctrlab.plain import Plain
from ctrlab.profiling.timing import compare, measure
from ctrlab.training.run import Run
from ctrlab.training.step import gradients_of
from ctrlab.whole_batch import Shard

EXAMPLES = (128, 256, 512, 1_024, 2_048, 4_096)
"""Of which a line is measured."""
BATCHES = 8
COUNTED = (64, 256, 1_024, 4_096, 16_384)
"""Examples whose distinct ids are counted."""
LAUNCH_ROWS = 512
"""Of the batch whose launches are counted; their number does not depend on it."""
STILL = frozenset(["Const", "Placeholder", "Identity", "ReadVariableOp", "Reshape", "ExpandDims", "Squeeze", "StopGradient"])
"""Ops that launch nothing. Those of int32 run on the host, as TensorFlow keeps such tensors there."""
FREE = frozenset(["parameter", "constant", "bitcast", "tuple", "get-tuple-element"])
"""The same of XLA's instructions."""


@dataclass(frozen=True)
class Launches(Plain):
    """Ops of a step, forward and backward, that launch work: of the graph, and after XLA has fused them for a CPU.

    Inputs, constants and views are counted on neither side. XLA fuses more for a GPU, so that there fewer may be left.
    """

    ops: int
    compiled: int

    def __post_init__(self):
        require.attributes("A step", self, ops=1, compiled=0)

    @property
    def left(self) -> float:
        return self.compiled / self.ops


@dataclass(frozen=True)
class Parts(Plain):
    """What was measured.

    Attributes:
        model: whose step.
        examples: of the steps that were timed.
        seconds: of each, by repetition.
        distinct: of the model's own data.
        tensor: seconds per tensor.
        launches: of DLRM on Criteo's columns, which have no lists: XLA compiles no ragged tensors.
    """

    model: str
    examples: tuple[int, ...]
    seconds: tuple[tuple[float, ...], ...]
    distinct: Distinct
    tensor: float
    launches: Launches

    @property
    def line(self) -> tuple[float, float]:
        """(fixed, per_example), seconds."""
        return line_through(dict(zip(self.examples, self.seconds)))


def parts(model: str, profile: str | None = None, examples: Sequence[int] = EXAMPLES) -> Parts:
    """Measures all of it, for a model with all optimizations that leave its results as they are."""
    require.numbers("Examples of a step that is measured", examples, 1, whole=True)
    name = profiles.current(profile).name
    job = Job(model, ["all"], "hashed", name, 2021)
    return Parts(model, tuple(examples), step_seconds(job, examples), counted(job), tensor_seconds(), launches())


def step_seconds(job: Job, examples: Sequence[int]) -> tuple[tuple[float, ...], ...]:
    """Of steps of one process, in rounds over all sizes; their batches were read before."""
    runs = {n: Run(job.spec(n)) for n in examples}
    batches = {n: list(run.read().take(BATCHES)) for n, run in runs.items()}

    def stepper(n: int):
        return lambda number: runs[n].train(1, batches=batches[n][number % len(batches[n]) :])

    found = compare({str(n): stepper(n) for n in examples}, lambda number: (number,), baseline=str(examples[0]))
    return tuple(found[str(n)].samples for n in examples)


def counted(job: Job) -> Distinct:
    """Distinct ids of the first rows of the model's data, of all tables together."""
    sizes = [n for n in COUNTED if n <= profiles.current(job.profile).rows]
    run = Run(job.spec(sizes[-1]))
    features, _ = next(iter(run.read()))
    fresh = functools.partial(build, job.model, None, run.rungs["model"], size=run.spec.size)
    model = functools.cache(fresh)
    ids = [least(model, [{name: column[:n] for name, column in features.items()}] * 2).distinct for n in sizes]
    return Distinct(tuple(map(float, sizes)), tuple(map(float, ids)), vocabulary(fresh) if job.embedding == "hashed" else None)


def vocabulary(model: Callable[[], object]) -> float:
    """Rows of all tables of a model with hashed ids: no batch has more distinct ones.

    Args:
        model: builds it.
    """
    rows = 0
    for index in range(2):
        with whole_batch.sharded(Shard(index, 2)):
            rows += sum(v.shape[0] for v in model().trainable_variables if whole_batch.is_sharded(v))
    return float(rows)


def tensor_seconds(tensors: int = 39) -> float:
    """Per tensor of 512 numbers that a thread of Python hands over."""
    require.numbers("Tensors that are handed over", tensors, 1, whole=True, single=True)
    arrays = [np.full(512, i, np.float32) for i in range(tensors)]
    return measure(lambda _: [tf.convert_to_tensor(a) for a in arrays], lambda i: (i,), name="tensors").median / tensors


def launches() -> Launches:
    """Counts what one step launches, as stock TensorFlow builds it and as XLA does."""
    model = build("dlrm", "criteo", "none")
    files = data.prepare_for(model.input_schema, ("parquet", "encoded"), profile="tiny")
    features, labels = next(iter(files.read_train(LAUNCH_ROWS)))

    def gradients(features, labels):
        loss, _, found = gradients_of(model, features, labels)
        return loss, [tf.convert_to_tensor(each) for each in found]

    graph = tf.function(gradients, autograph=False).get_concrete_function(features, labels).graph
    ops = sum(op.type not in STILL and any(out.dtype.is_floating for out in op.outputs) for op in graph.get_operations())
    compiled = tf.function(gradients, autograph=False, jit_compile=True)
    text = compiled.experimental_get_compiler_ir(features, labels)(stage="optimized_hlo")
    entry = text[text.index("ENTRY") :]
    return Launches(ops, sum(kind not in FREE for kind in re.findall(r"^.* = \S+ ([a-z-]+)\(", entry, re.M)))
