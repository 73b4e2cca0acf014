"""The pointwise ops between two products of a tower: bias and activation, PReLU, or a learned affine map per column.

    relu      out = max(x + shift, 0)
    prelu     p = x + shift;  out = p if p > 0 else slope p
    affine    out = slope x + shift

The baseline runs one op per arithmetic operation, and several more backward: the bias's gradient is a sum over rows that reads
[B, n] again. The fused op makes one pass each way, in place if nobody else reads the input. No model uses its ReLU: TensorFlow
itself fuses a product with its bias and ReLU, so nothing can be gained (lesson 02_ops/08).

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
        CtrlabError: no such kind, or a slope for a kind without one. InvalidArgumentError: shapes do not agree.
        NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    agree(kind, slope)
    slope = tf.zeros([0]) if slope is None else slope
    return _native.library().ops.ctrlab_pointwise(kind=kind, x=x, shift=shift, slope=slope)


@tf.RegisterGradient("Ctrlab>Pointwise")
def _fused_gradient(op: tf.Operation, d_out: tf.Tensor) -> list[tf.Tensor]:
    kind = op.get_attr("kind").decode()
    x, shift, slope = op.inputs
    source = op.outputs[0] if kind == "relu" else x  # the gradient of ReLU needs only `out`, so the forward op can work in place
    return list(_native.library().ops.ctrlab_pointwise_gradient(kind=kind, d_out=d_out, source=source, shift=shift, slope=slope))


OP = Op("pointwise", rung="subgraphs", definition=definition, baseline=baseline, fused=fused)
