"""E towers of dense layers with ReLU, side by side: MMoE's experts.

    hidden[l][e] = relu(hidden[l - 1][e] kernels[l][e] + biases[l][e]),  hidden[-1][e] = x for every e

The baseline runs a product, a sum and a ReLU per layer, each a pass over [E, B, H]. Backward it writes E gradients of x and adds
them. The fused op takes a block of rows through all layers of an expert while the block stays in a core's own cache. It applies
bias and ReLU to a product's output at once, and adds each expert's part to d_x in place. It reads the kernels without packing.

Every implementation takes

    x: float32 [B, I].
    kernels: L of float32 [E, in, out], the first with in = I. `fused` wants each `out` to be a multiple of 16.
    biases: L of float32 [E, 1, out].

and returns float32 [E, B, H], H the last layer's `out`. With E = 1 it is a plain tower.

Source: Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts", KDD 2018.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab import _native
from ctrlab.ops.op import Op
from ctrlab.ops.references import experts as definition


def baseline(x: tf.Tensor, kernels: Sequence[tf.Tensor], biases: Sequence[tf.Tensor]) -> tf.Tensor:
    """A batched product per layer; the first one broadcasts x to every expert."""
    y = x[None, :, :]  # [1, B, I]
    for kernel, bias in zip(kernels, biases):
        y = tf.nn.relu(tf.matmul(y, kernel) + bias)  # [E, B, out]
    return y


def one_by_one(x: tf.Tensor, kernels: Sequence[tf.Tensor], biases: Sequence[tf.Tensor]) -> tf.Tensor:
    """Each expert separately: TensorFlow's remapper fuses each product with bias and ReLU."""
    hidden = [x] * kernels[0].shape[0]
    for kernel, bias in zip(kernels, biases):
        parts = zip(hidden, tf.unstack(kernel), tf.unstack(bias))
        hidden = [tf.nn.relu(tf.nn.bias_add(tf.matmul(y, k), b[0])) for y, k, b in parts]  # E of [B, out]
    return tf.stack(hidden)


def fused(x: tf.Tensor, kernels: Sequence[tf.Tensor], biases: Sequence[tf.Tensor]) -> tf.Tensor:
    """The compiled op; differentiable once.

    Raises:
        InvalidArgumentError: shapes do not agree, or a layer's outputs are not a multiple of 16. NativeLibraryError: there is
        no compiled library for this TensorFlow.
    """
    return _native.library().ops.ctrlab_experts(x=x, kernels=list(kernels), biases=list(biases))[-1]


@tf.RegisterGradient("Ctrlab>Experts")
def _fused_gradient(op: tf.Operation, *d_hidden: tf.Tensor) -> list[tf.Tensor]:
    layers = op.get_attr("L")
    x, *weights = op.inputs
    d_x, d_kernels, d_biases = _native.library().ops.ctrlab_experts_gradient(
        x=x, kernels=weights[:layers], biases=weights[layers:], hidden=list(op.outputs), d_out=d_hidden[-1]
    )
    return [d_x, *d_kernels, *d_biases]


OP = Op(
    "experts",
    rung="experts",
    part="experts",
    definition=definition,
    baseline=baseline,
    others={"one by one": one_by_one},
    fused=fused,
)
