"""DLRM's interaction: the dot products of all pairs of vectors, next to the bottom vector made from the numeric features.

    out[b] = (u[b, 0], then u[b, i] . u[b, j] for i = 1, 2, ... and j = 0, ..., i - 1)

where u is the bottom vector followed by the F embeddings: U = F + 1 vectors, U (U - 1) / 2 pairs. The baseline concatenates the
vectors, computes all U x U products (each pair twice, and each vector with itself), gathers the lower triangle, and concatenates
it with the bottom vector. The fused op computes the triangle alone and writes it where the top's first layer reads it.

Every implementation takes

    bottom: float32 [B, D], or None without numeric features: then there are F vectors and nothing before the pairs.
    fields: float32 [B, F * D], the F vectors of an example side by side, as a lookup of all columns gives them.
    dim: D.

and returns float32 [B, D + P], or [B, P] without a bottom vector.

Source: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems", 2019.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ctrlab import _native
from ctrlab.ops.op import Op
from ctrlab.ops.references import dot_interaction as definition


def baseline(bottom: tf.Tensor | None, fields: tf.Tensor, dim: int) -> tf.Tensor:
    """All products, then a gather of the lower triangle."""
    dots, row, column = _all_dots(bottom, fields, dim)
    vectors = dots.shape[1]
    pairs = tf.gather(tf.reshape(dots, (-1, vectors * vectors)), row * vectors + column, axis=1)  # [B, P]
    return pairs if bottom is None else tf.concat([bottom, pairs], axis=1)


def masked(bottom: tf.Tensor | None, fields: tf.Tensor, dim: int) -> tf.Tensor:
    """All products, then a boolean mask for the lower triangle, as in DeepRec's DLRM and TensorFlow Recommenders."""
    dots, row, column = _all_dots(bottom, fields, dim)
    mask = np.zeros(dots.shape[1:], bool)  # [U, U]
    mask[row, column] = True
    pairs = tf.boolean_mask(dots, mask, axis=1)  # [B, P]
    return pairs if bottom is None else tf.concat([bottom, pairs], axis=1)


def fused(bottom: tf.Tensor | None, fields: tf.Tensor, dim: int) -> tf.Tensor:
    """The compiled op; differentiable once.

    Raises:
        InvalidArgumentError: the width of the fields is not a multiple of dim, or the bottom vector is not [B, dim].
        NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    bottoms = [] if bottom is None else [bottom]
    return _native.library().ops.ctrlab_dot_interaction(bottom=bottoms, fields=fields, dim=dim)


@tf.RegisterGradient("Ctrlab>DotInteraction")
def _fused_gradient(op: tf.Operation, d_out: tf.Tensor) -> list[tf.Tensor]:
    *bottom, fields = op.inputs
    d_bottom, d_fields = _native.library().ops.ctrlab_dot_interaction_gradient(
        bottom=bottom, fields=fields, d_out=d_out, dim=op.get_attr("dim")
    )
    return [*d_bottom, d_fields]


def _all_dots(bottom, fields, dim: int) -> tuple[tf.Tensor, np.ndarray, np.ndarray]:
    """[B, U, U], and the rows and columns of its strict lower triangle."""
    u = tf.reshape(fields, (-1, fields.shape[1] // dim, dim))  # [B, F, D]
    if bottom is not None:
        u = tf.concat([bottom[:, None, :], u], axis=1)  # [B, F + 1, D]
    return tf.matmul(u, u, transpose_b=True), *np.tril_indices(u.shape[1], -1)


OP = Op(
    "dot_interaction",
    rung="interaction",
    part="interaction",
    definition=definition,
    baseline=baseline,
    others={"masked": masked},
    fused=fused,
)
