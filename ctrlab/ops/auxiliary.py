"""DIEN's auxiliary loss: from the interest after an event, tell what was clicked next from what was not.

    loss = 1/M sum over events t that have a next one of  softplus(-x(h_t, clicked_{t+1})) + softplus(x(h_t, skipped_{t+1}))

where x(h, e) = MLP(scale * [h, e] + shift) is the logit that e follows h, and M is the number of such events; without any
the loss is 0.

Zhou et al., "Deep Interest Evolution Network", AAAI 2019; its two-way softmax is one logit here, which is the same function.

Every way takes

    interests: `Events`, H wide. clicked, skipped: `Events`, C wide: the history, and for each event one that did not happen.
    scale, shift: float32 [H + C].
    layers: the MLP's (kernel [in, out], bias [out]) pairs, H + C wide at the bottom and 1 at the top; sigmoid between.

and returns float32 []. The baseline takes the interests as it has them, padded; the fused op takes what is there. Scale and
shift are folded into the first layer; its sum on [h, e] is made as h Wh + e We, so that the interest's part is made once for both
e's; and the gradient is made in the same pass, while a tile of positions is in cache: that of a loss is known up to a factor as
soon as the logits are.
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
    """Masks of the padded interests, a concat and an MLP for each e."""
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
