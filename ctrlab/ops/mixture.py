"""The mixture of MMoE: each task weights the experts' outputs with its own softmax gate.

    gates[b, k] = softmax over e of (x kernels[k] + biases[k]),  out[k][b] = sum over e of gates[b, k, e] * experts[e, b]

The baseline runs a product and a softmax per task, transposes the experts to [B, E, H], and mixes them in B tiny products
[1, E] x [E, H] per task. The fused op computes all gates in one product, and softmax and mixture in one op that reads the experts
without a transpose.

Every implementation takes

    x: float32 [B, I].
    experts: float32 [E, B, H].
    kernels, biases: K of float32 [I, E], and of [E].

and returns K of float32 [B, H].

Source: Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts", KDD 2018.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab import _native
from ctrlab.ops.op import Op
from ctrlab.ops.references import mixture as definition


def baseline(x: tf.Tensor, experts: tf.Tensor, kernels: Sequence[tf.Tensor], biases: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """A dense layer, a softmax and a batch of products per task."""
    said = tf.transpose(experts, (1, 0, 2))  # [B, E, H]
    gates = [tf.nn.softmax(tf.nn.bias_add(tf.matmul(x, kernel), bias)) for kernel, bias in zip(kernels, biases)]  # K of [B, E]
    return [tf.squeeze(tf.matmul(gate[:, None, :], said), 1) for gate in gates]  # [B, 1, E] x [B, E, H] -> [B, H]


def fused(x: tf.Tensor, experts: tf.Tensor, kernels: Sequence[tf.Tensor], biases: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """One product for all gates, then the compiled op; differentiable once.

    Raises:
        InvalidArgumentError: shapes do not agree. NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    logits = tf.nn.bias_add(tf.matmul(x, tf.concat(kernels, axis=1)), tf.concat(biases, axis=0))  # [B, K * E]
    mixed = _native.library().ops.ctrlab_mixture(experts=experts, logits=logits, tasks=len(kernels)).out  # [K, B, H]
    return tf.unstack(mixed, num=len(kernels))


@tf.RegisterGradient("Ctrlab>Mixture")
def _fused_gradient(op: tf.Operation, _, d_out: tf.Tensor):
    return _native.library().ops.ctrlab_mixture_gradient(
        experts=op.inputs[0], gates=op.outputs[0], d_out=d_out, tasks=op.get_attr("tasks")
    )


OP = Op("mixture", rung="experts", part="experts", definition=definition, baseline=baseline, fused=fused)
