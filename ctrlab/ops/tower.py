"""Dense layers with ReLU, one after another: the part of a tower below its linear top.

    hidden[l] = relu(hidden[l - 1] kernels[l] + biases[l]),  hidden[-1] = x

The fused op is that of `ctrlab.ops.experts`, with the tower as its only expert: a block of rows goes through all layers while it
stays in a core's own cache.

Every way takes

    x: float32 [B, I].
    kernels: L of [in, out], float32 or bfloat16, the first with in = I. `fused` wants each `out` to be a multiple of 16.
    biases: L of float32 [out].

and returns float32 [B, H], H the last layer's `out`. With bfloat16 kernels the products are in bfloat16, by TensorFlow's own op.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab.ops import experts
from ctrlab.ops.op import Op
from ctrlab.ops.references import tower as definition


def baseline(x: tf.Tensor, kernels: Sequence[tf.Tensor], biases: Sequence[tf.Tensor]) -> tf.Tensor:
    """What Keras's Dense layers do: TensorFlow itself fuses a product with its bias and ReLU."""
    for kernel, bias in zip(kernels, biases):
        product = tf.matmul(tf.cast(x, kernel.dtype), kernel)  # [B, out]
        x = tf.nn.relu(tf.nn.bias_add(product, tf.cast(bias, kernel.dtype)))
    return tf.cast(x, tf.float32)


def fused(x: tf.Tensor, kernels: Sequence[tf.Tensor], biases: Sequence[tf.Tensor]) -> tf.Tensor:
    """The compiled op; differentiable once.

    Raises:
        InvalidArgumentError: shapes do not agree, or a layer's outputs are not a multiple of 16. NativeLibraryError: there is
            no compiled library for this TensorFlow.
    """
    if kernels[0].dtype != tf.float32:
        return baseline(x, kernels, biases)
    # [1, in, out] and [1, 1, out]. Not by slicing: the gradient of a slice copies.
    one, biases = [tf.expand_dims(kernel, 0) for kernel in kernels], [tf.reshape(bias, (1, 1, -1)) for bias in biases]
    return tf.squeeze(experts.fused(x, one, biases), 0)  # [B, H]


OP = Op("tower", rung="experts", definition=definition, baseline=baseline, fused=fused)
