"""What stands between two products of a tower: bias and activation, PReLU, or a learnt affine map of each column.

    relu      out = max(x + shift, 0)
    prelu     p = x + shift;  out = p if p > 0 else slope p
    affine    out = slope x + shift

The baseline takes an op a sign, and backward several more: the sum over the rows that is the bias's gradient reads all
of [B, n] again. The fused op makes one pass each way, in place where nobody else needs the numbers. No model uses its ReLU:
TensorFlow makes one op of a product, its bias and a ReLU by itself, so there is nothing to win (lesson 02_ops/08).

Every implementation takes

    kind: one of KINDS.
    x: float32 [B, n].
    shift, slope: float32 [n]; slope for prelu and affine only.

and returns float32 [B, n].
"""

from __future__ import annotations

import tensorflow as tf

from ctrlab import _native
from ctrlab.ops.op import Op
from ctrlab.ops.references import pointwise as definition
from ctrlab.ops.references.pointwise import agree


def baseline(kind: str, x, shift, slope=None) -> tf.Tensor:
    """What Keras's layers do."""
    agree(kind, slope)
    if kind == "affine":
        return x * slope + shift
    p = tf.nn.bias_add(x, shift)
    if kind == "prelu":
        return tf.nn.relu(p) - slope * tf.nn.relu(-p)
    return tf.nn.relu(p)


def fused(kind: str, x, shift, slope=None) -> tf.Tensor:
    """The compiled op; differentiable in x, shift and slope.

    Raises:
        CtrlabError: no such kind, or a slope where there is none. InvalidArgumentError: shapes do not agree.
        NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    agree(kind, slope)
    slope = tf.zeros([0]) if slope is None else slope
    return _native.library().ops.ctrlab_pointwise(kind=kind, x=x, shift=shift, slope=slope)


@tf.RegisterGradient("Ctrlab>Pointwise")
def _fused_gradient(op: tf.Operation, d_out: tf.Tensor) -> list[tf.Tensor]:
    kind = op.get_attr("kind").decode()
    x, shift, slope = op.inputs
    source = op.outputs[0] if kind == "relu" else x  # who reads `out` need not keep x, so the op forward works in place
    return list(_native.library().ops.ctrlab_pointwise_gradient(kind=kind, d_out=d_out, source=source, shift=shift, slope=slope))


OP = Op("pointwise", rung="subgraphs", definition=definition, baseline=baseline, fused=fused)
