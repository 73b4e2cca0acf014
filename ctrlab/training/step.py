"""One training step as one graph: forward pass, loss, gradients, update."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def loss_of(model, features, labels, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """The training loss of every model, and its logits.

    The mean over examples and tasks of the sigmoid cross-entropy, plus losses that the model added (DIEN's auxiliary loss).

    Args:
        labels: float32 [B, K].
    Returns:
        loss, float32 scalar; logits, float32 [B, K].
    """
    logits = tf.cast(model(features, training=training), tf.float32)  # [B, K]
    cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)  # [B, K]
    return tf.add_n([tf.reduce_mean(cross_entropy), *model.losses]), logits


def gradients_of(model, features, labels, scale: Callable = tf.identity) -> tuple[tf.Tensor, tf.Tensor, list]:
    """Loss, logits, and the gradient of each trainable weight in the order of `model.trainable_variables`.

    Args:
        scale: differentiates scale(loss) in place of the loss; pass an optimizer's `scale_loss`.
    """
    with tf.GradientTape() as tape:
        loss, logits = loss_of(model, features, labels, training=True)
        scaled = scale(loss)
    return loss, logits, tape.gradient(scaled, [v.value for v in model.trainable_variables])


def train_step(model, optimizer) -> Callable:
    """The step `(features, labels) -> loss` as a tf.function.

    It does what `model.fit` does with this optimizer and `compile_model`'s loss, without Keras's own bookkeeping.
    """
    if not optimizer.built:
        optimizer.build(model.trainable_variables)

    @tf.function(reduce_retracing=True)
    def step(features, labels):
        loss, _, gradients = gradients_of(model, features, labels, optimizer.scale_loss)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    return step


def predict_step(model) -> Callable:
    """`features -> probabilities`, float32 [B, K], as a tf.function in evaluation mode."""

    @tf.function(reduce_retracing=True)
    def predict(features):
        return tf.sigmoid(model(features, training=False))

    return predict
