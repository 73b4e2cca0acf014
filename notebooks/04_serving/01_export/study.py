"""What the lesson on exports looks at: a version's ops, a server in Python, the towers of a model, a damaged version."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from ctrlab.models.blocks import Tower
from ctrlab.models.deepfm import DeepFM
from ctrlab.serving.graph import traced
from ctrlab.serving.inputs import Input, inputs_of

NO_WORK = ("Const", "Placeholder", "Identity", "NoOp")
Arrays = list[np.ndarray]


def ops_of(version: Path) -> Counter:
    """{op type: number of such ops in a call} for a version's folder; constants, inputs and the like are left out."""
    saved = saved_model_pb2.SavedModel.FromString((version / "saved_model.pb").read_bytes())
    return Counter(node.op for node in saved.meta_graphs[0].graph_def.node if node.op not in NO_WORK)


def tensors(instances: Sequence[Mapping], columns: Sequence[Input]) -> dict[str, tf.Tensor]:
    """The tensors of a SavedModel's signature from the rows of a JSON body."""
    found = {}
    for each in columns:
        values = [row[each.column] for row in instances]
        if each.ragged:
            found[f"{each.column}/values"] = tf.constant([value for row in values for value in row], each.dtype)
            found[f"{each.column}/row_splits"] = tf.constant(np.cumsum([0, *map(len, values)]), tf.int64)
        else:
            found[each.column] = tf.constant(values, each.dtype)
    return found


def weights_of(tower: Tower) -> tuple[Arrays, Arrays, list[Arrays]]:
    """Kernels [I, O], biases [O], and gamma, beta, mean and variance of each norm that a layer follows."""
    norms = [(n.gamma, n.beta, n.moving_mean, n.moving_variance) for n in tower.norms[: len(tower.layers) - 1]]
    kernels, biases = zip(*((layer.kernel.numpy(), layer.bias.numpy()) for layer in tower.layers))
    return list(kernels), list(biases), [[v.numpy() for v in norm] for norm in norms]


def tower(kernels: Sequence, biases: Sequence, norms: Sequence = (), epsilon: float = 1e-3) -> Callable[[tf.Tensor], tf.Tensor]:
    """A tower, [B, I] -> [B, O]: product, bias, ReLU, and the norm before the next layer."""

    @tf.function
    def run(x):
        for n, (kernel, bias) in enumerate(zip(kernels, biases)):
            x = tf.nn.relu(tf.nn.bias_add(x @ kernel, bias))
            if n < len(norms):
                gamma, beta, mean, variance = map(tf.constant, norms[n])
                x = tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
        return x

    return run


def exported(model: DeepFM) -> Arrays:
    """The dense tensors that an export of the model writes."""
    trace = traced(model, inputs_of(model, "text"))
    return trace.dense_values(trace.weight_values())


def damaged_copy(version: Path) -> Path:
    """The next version: a copy whose weights have one bit that flipped."""
    copy = shutil.copytree(version, version.with_name(str(int(version.name) + 1)))
    weights = bytearray((copy / "assets/weights").read_bytes())
    weights[len(weights) // 2] ^= 1
    (copy / "assets/weights").write_bytes(weights)
    return copy
