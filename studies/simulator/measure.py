"""Measures the inputs of the simulator of many workers on this machine: `ctrlab bench simulator`.

distinct    distinct ids of batches of generated rows, counted
seconds     a step of one process, by examples: the line through them is `fixed` and `per_example`
tensor      of a thread to hand a small tensor to TensorFlow, as a loop over devices does for each column
launches    of a step that stock TensorFlow makes of a model, and what XLA makes of it
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from ctrlab.lessons.topics.more_workers.one_process import Job, Launches, Parts, counted, step_seconds

from ctrlab import data, profiles
from ctrlab.distributed import require
from ctrlab.models import build
from ctrlab.profiling.timing import measure
from ctrlab.training.step import gradients_of

EXAMPLES = (128, 256, 512, 1_024, 2_048, 4_096)
"""Numbers of examples of the steps through whose seconds the line is fitted."""
LAUNCH_ROWS = 512
"""Number of rows of the batch whose launches are counted; it does not change the number of launches."""
STILL = frozenset(["Const", "Placeholder", "Identity", "ReadVariableOp", "Reshape", "ExpandDims", "Squeeze", "StopGradient"])
"""Ops that launch nothing. Those of int32 run on the host, as TensorFlow keeps such tensors there."""
FREE = frozenset(["parameter", "constant", "bitcast", "tuple", "get-tuple-element"])
"""XLA's instructions that launch nothing."""


def parts(model: str, profile: str | None = None, examples: Sequence[int] = EXAMPLES) -> Parts:
    """Measures all parts, for a model with all optimizations that do not change its results."""
    require.numbers("Examples of a step that is measured", examples, 1, whole=True)
    name = profiles.current(profile).name
    job = Job(model, ["all"], "hashed", name, 2021)
    return Parts(model, tuple(examples), step_seconds(job, examples), counted(job), tensor_seconds(), launches())


def tensor_seconds(tensors: int = 39) -> float:
    """Seconds per tensor of 512 numbers that a Python thread passes to TensorFlow."""
    require.numbers("Tensors that are handed over", tensors, 1, whole=True, single=True)
    arrays = [np.full(512, i, np.float32) for i in range(tensors)]
    return measure(lambda _: [tf.convert_to_tensor(a) for a in arrays], lambda i: (i,), name="tensors").median / tensors


def launches() -> Launches:
    """Counts the launches of one step, as stock TensorFlow builds it and as XLA does."""
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
