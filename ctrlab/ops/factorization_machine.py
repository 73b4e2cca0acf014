"""The factorization machine's second order: products of all pairs of fields, dimension by dimension.

    out[b, d] = sum over pairs of fields i > j of  v[b, i, d] v[b, j, d]  =  1/2 ((sum of v)^2 - sum of v^2)

This is DeepFM's middle part. The baseline writes and reads six tensors, and as many in its gradient. The fused op reads each
example's fields once forward. Backward it reads them twice, the second time from the first-level cache.

Every implementation takes

    fields: float32 [B, F * D], the F vectors of an example side by side, as a lookup of all columns gives them.
    dim: D.

and returns float32 [B, D].

Source: Rendle, "Factorization Machines", ICDM 2010.
"""

from __future__ import annotations

import tensorflow as tf

from ctrlab import _native
from ctrlab.ops.op import Op
from ctrlab.ops.references import factorization_machine as definition


def baseline(fields: tf.Tensor, dim: int) -> tf.Tensor:
    """Half of the square of the sum minus the sum of the squares."""
    v = tf.reshape(fields, (-1, fields.shape[1] // dim, dim))  # [B, F, D]
    return 0.5 * (tf.square(tf.reduce_sum(v, 1)) - tf.reduce_sum(tf.square(v), 1))


def fused(fields: tf.Tensor, dim: int) -> tf.Tensor:
    """The compiled op; differentiable once.

    Raises:
        InvalidArgumentError: the width of the fields is not a multiple of dim. NativeLibraryError: there is no compiled library
            for this TensorFlow.
    """
    return _native.library().ops.ctrlab_factorization_machine(fields=fields, dim=dim)


@tf.RegisterGradient("Ctrlab>FactorizationMachine")
def _fused_gradient(op: tf.Operation, d_out: tf.Tensor) -> tf.Tensor:
    ops = _native.library().ops
    return ops.ctrlab_factorization_machine_gradient(fields=op.inputs[0], d_out=d_out, dim=op.get_attr("dim"))


OP = Op("factorization_machine", rung="interaction", part="interaction", definition=definition, baseline=baseline, fused=fused)
