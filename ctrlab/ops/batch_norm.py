"""Batch normalisation of a layer's ReLU, in training.

    a[b, c]   = max(product[b, c] + bias[c], 0)
    mean[c]   = the mean over b of a[b, c];   variance[c] = the mean over b of (a[b, c] - mean[c])^2
    out[b, c] = scale[c] (a[b, c] - mean[c]) / sqrt(variance[c] + epsilon) + shift[c]

The baseline makes a dozen passes over [B, n] forward and two dozen backward, each by its own op. The fused op makes one pass each
way: a core takes a block of columns and goes through all rows while the block stays in its cache.

Every implementation takes

    product: float32 [B, n], the layer's input times its kernel.
    bias, scale, shift: float32 [n].
    epsilon: keeps a constant column from dividing by 0.

and the moving statistics for evaluation, [n] each, with their momentum. It returns out [B, n] and the updated statistics
momentum * moving + (1 - momentum) * the batch's. An empty batch leaves them unchanged.

Source: Ioffe & Szegedy, "Batch Normalization", 2015; as in Keras (the variance is the batch's own, divided by B).
"""

from __future__ import annotations

import tensorflow as tf

from ctrlab import _native, whole_batch
from ctrlab.ops.op import Op
from ctrlab.ops.references import batch_norm as definition
from ctrlab.ops.references.batch_norm import EPSILON, MOMENTUM


def baseline(product, bias, scale, shift, moving_mean, moving_variance, epsilon=EPSILON, momentum=MOMENTUM) -> tuple:
    """What Keras's Dense and BatchNormalization do."""
    a = tf.nn.relu(tf.nn.bias_add(product, bias))
    mean, variance = whole_batch.moments(a)
    out = tf.nn.batch_normalization(a, mean, variance, shift, scale, epsilon)
    return out, *(old * momentum + new * (1 - momentum) for old, new in ((moving_mean, mean), (moving_variance, variance)))


def fused(product, bias, scale, shift, moving_mean, moving_variance, epsilon=EPSILON, momentum=MOMENTUM) -> tuple:
    """The compiled op; `out` is differentiable in product, bias, scale and shift.

    Raises:
        InvalidArgumentError: shapes do not agree. NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    if whole_batch.batch():  # a kernel's rows are this worker's alone
        return baseline(product, bias, scale, shift, moving_mean, moving_variance, epsilon, momentum)
    out, _, _, new_mean, new_variance = _native.library().ops.ctrlab_batch_norm(
        product=product,
        bias=bias,
        scale=scale,
        shift=shift,
        moving_mean=moving_mean,
        moving_variance=moving_variance,
        epsilon=epsilon,
        momentum=momentum,
    )
    return out, new_mean, new_variance


@tf.RegisterGradient("Ctrlab>BatchNorm")
def _fused_gradient(op: tf.Operation, d_out: tf.Tensor, *_) -> list[tf.Tensor | None]:
    product, bias, scale = op.inputs[:3]
    _, mean, variance, _, _ = op.outputs
    gradients = _native.library().ops.ctrlab_batch_norm_gradient(
        product=product, bias=bias, scale=scale, mean=mean, variance=variance, d_out=d_out, epsilon=op.get_attr("epsilon")
    )
    return [*gradients, None, None]


OP = Op("batch_norm", rung="subgraphs", definition=definition, baseline=baseline, fused=fused, differentiable=1)
