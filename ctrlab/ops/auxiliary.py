"""DIEN's auxiliary loss: the interest after an event must tell the next clicked item from an item that was not clicked.

    loss = 1/M sum over events t that have a next one of  softplus(-x(h_t, clicked_{t+1})) + softplus(x(h_t, skipped_{t+1}))

where x(h, e) = MLP(scale * [h, e] + shift) is the logit that e follows h, and M is the number of events that have a next one;
with M = 0 the loss is 0.

Zhou et al., "Deep Interest Evolution Network", AAAI 2019. Its two-way softmax is written as one logit here: the same function.

Every way takes

    interests: `Events`, H wide. clicked, skipped: `Events`, C wide: the history, and for each event one that did not happen.
    scale, shift: float32 [H + C].
    layers: the MLP's (kernel [in, out], bias [out]) pairs, H + C wide at the bottom and 1 at the top; sigmoid between.

and returns float32 []. The baseline takes padded interests; the fused op takes the existing events only. The fused op folds
scale and shift into the first layer. It computes that layer on [h, e] as h Wh + e We, so h Wh is computed once for both e's. It
also computes the gradient in the same pass, while a tile of positions is in the cache: once the logits are known, the gradient
of a loss is known up to a factor.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops.events import Events
from ctrlab.ops.op import Op
from ctrlab.ops.references import auxiliary as definition

Layers = Sequence[tuple[tf.Tensor, tf.Tensor]]


def baseline(interests: Events, clicked: Events, skipped: Events, scale, shift, layers: Layers) -> tf.Tensor:
    """Masks the padded interests, then concatenates and runs the MLP for clicked and for skipped events."""
    lengths, most = clicked.lengths, tf.shape(interests.padded)[1]
    before = tf.boolean_mask(interests.padded, tf.sequence_mask(lengths - 1, most))  # [M, H]
    losses = 0.0
    for events, sign in ((clicked, -1.0), (skipped, 1.0)):
        x = tf.concat([before, events.ragged[:, 1:].flat_values], axis=1) * scale + shift  # [M, H + C]
        for kernel, bias in layers[:-1]:
            x = tf.sigmoid(tf.matmul(x, kernel) + bias)  # [M, units]
        logit = tf.matmul(x, layers[-1][0]) + layers[-1][1]  # [M, 1]
        losses += tf.nn.softplus(sign * logit)  # the cross-entropy of a logit that should be large, or small
    return tf.math.divide_no_nan(tf.reduce_sum(losses), tf.cast(tf.shape(losses)[0], tf.float32))


def fused(interests: Events, clicked: Events, skipped: Events, scale, shift, layers: Layers) -> tf.Tensor:
    """The compiled op; differentiable in everything but the splits.

    Raises:
        CtrlabError: there is no layer. InvalidArgumentError: shapes or splits do not agree. NativeLibraryError: there is no
            compiled library for this TensorFlow.
    """
    if not layers:
        raise CtrlabError("The auxiliary loss needs at least the layer that gives the logit; received no layers.")
    (kernel, bias), *above = layers
    folded = scale[:, None] * kernel, bias + tf.linalg.matvec(kernel, shift, transpose_a=True)
    kernels, biases = zip(folded, *above)
    return (
        _native.library()
        .ops.ctrlab_auxiliary(
            interests=interests.flat,
            clicked=clicked.flat,
            skipped=skipped.flat,
            splits=clicked.splits,
            kernels=kernels,
            biases=biases,
        )
        .loss
    )


@tf.RegisterGradient("Ctrlab>Auxiliary")
def _fused_gradient(op: tf.Operation, d_loss: tf.Tensor, *_) -> list[tf.Tensor | None]:
    d_interests, d_clicked, d_skipped, *d_layers = (d_loss * gradient for gradient in op.outputs[1:])
    return [d_interests, d_clicked, d_skipped, None, *d_layers]


OP = Op("auxiliary", rung="auxiliary", part="auxiliary", definition=definition, baseline=baseline, fused=fused)
