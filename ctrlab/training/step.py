"""One training step as one graph: forward pass, loss, gradients, update."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow as tf

from ctrlab import devices, whole_batch
from ctrlab.models import held
from ctrlab.models import labels as rules
from ctrlab.training.group import ALONE, Group


def loss_of(model, features, labels, training: bool, forward: Callable | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """The training loss of every model, and its logits.

    The mean over examples and tasks of the sigmoid cross-entropy, plus losses that the model added (DIEN's auxiliary loss).

    Args:
        labels: as `ctrlab.models.labels` says.
        forward: a function that is called in place of the model.
    Returns:
        loss, float32 scalar; logits, float32 [B, K].
    Raises:
        BadData: labels have another shape or type, or not as many rows as the features; the model's output is not one tensor [B,
            K].
    """
    outputs = (forward or model)(features, training=training)  # [B, K]
    labels = rules.checked(labels, model, outputs)
    logits = tf.cast(outputs, tf.float32)
    cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)  # [B, K]
    return tf.add_n([whole_batch.mean(cross_entropy), *model.losses]), logits


def gradients_of(
    model, features, labels, scale: Callable = tf.identity, forward: Callable | None = None
) -> tuple[tf.Tensor, tf.Tensor, list]:
    """Loss, logits, and the gradient of each trainable weight in the order of `model.trainable_variables`.

    Args:
        scale: differentiates scale(loss) in place of the loss; pass an optimizer's `scale_loss`.
        forward: as in `loss_of`.
    """
    with devices.of(model):
        with tf.GradientTape() as tape:
            loss, logits = loss_of(model, features, labels, True, forward)
            scaled = scale(loss)
        return loss, logits, tape.gradient(scaled, [v.value for v in model.trainable_variables])


def train_step(model, optimizer, workers: Group = ALONE) -> Callable:
    """The step `(features, labels) -> loss` as a tf.function.

    It does what `model.fit` does with this optimizer and `compile_model`'s loss, without Keras's own bookkeeping. A step that
    raises changes nothing, not even what layers assign in the forward pass (see `ctrlab.models.held`).

    The step takes labels in the forms of `ctrlab.models.labels`, also for a model that is not ours.

    Args:
        workers: a result of `ctrlab.distributed.join`, if several processes train together. Each gives its part of the batch,
            possibly without examples, and all take the step that one process would take on the whole batch. The loss is that of
            the whole batch.
    Raises:
        InvalidArgumentError, in a step: the loss, a gradient, a moving statistic or the learning rate is not finite; labels that
            are not in [0, 1].
    """
    whole = untraced_step(model, optimizer, workers)

    @tf.function(autograph=False, reduce_retracing=True)
    def step(features, labels):
        return whole(features, labels)[0]

    return step


def untraced_step(model, optimizer, workers: Group = ALONE) -> Callable:
    """The step of `train_step` as `(features, labels) -> (loss, logits, gradients)`, for a tf.function that returns all of them.

    The gradients are those of the scaled loss over the whole batch, in the order of `model.trainable_variables`.
    """
    if not optimizer.built:
        optimizer.build(model.trainable_variables)
    together = workers.program()

    def step(features, labels):
        with devices.of(model), together(labels), held.step(optimizer) as forward:
            call = functools.partial(forward.call, model, model)
            loss, logits, gradients = gradients_of(
                model, features, labels, lambda loss: optimizer.scale_loss(forward.checked(loss)), call
            )
            gradients = whole_batch.reduced(gradients, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)
            return whole_batch.total(loss), logits, gradients

    return step


def kept_predict_step(model) -> Callable:
    """The `predict_step` of an earlier call for this model, so that nothing is traced again; it is kept in the model, and freed
    with it. If rungs, embeddings, columns or layers have changed, it is another one.

    For one of the six models it has a trace for batches of any size.
    """
    made_of = (
        *(getattr(model, name, None) for name in ("rungs", "input_schema")),
        dict(getattr(model, "choices", {})),
        model.layers,
    )
    kept = vars(model).get("_predicts_by")
    if kept is None or kept[1] != made_of:
        kept = predict_step(model), made_of
        if hasattr(model, "input_signature"):
            kept[0].get_concrete_function(model.input_signature())
        vars(model)["_predicts_by"] = kept  # not by setattr: Keras would track what is in it
    return kept[0]


def predict_step(model, workers: Group = ALONE) -> Callable:
    """`features -> probabilities`, float32 [B, K], as a tf.function in evaluation mode.

    Args:
        workers: as in `train_step`; all of them call it, each with its own examples.
    Raises:
        BadData, in a call: the model's output is not one tensor [B, K].
    """

    together = workers.program()

    @tf.function(autograph=False, reduce_retracing=True)
    def predict(features):
        with devices.of(model), together(None):
            outputs = model(features, training=False)
            rules.tasks_of(model, outputs)
            return tf.sigmoid(tf.cast(outputs, tf.float32))

    return predict
