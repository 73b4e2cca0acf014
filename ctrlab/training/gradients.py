"""Checks on gradients that run before the step changes the first variable."""

from __future__ import annotations

import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.errors import CtrlabError
from ctrlab.models.held import CURE, given_if


def fitting(variable, gradient):
    """The gradient, dense or `tf.IndexedSlices`. In a graph, it waits for a check that its shape is the variable's.

    Raises:
        CtrlabError: the shape or dtype differs from the variable's. InvalidArgumentError: the same, if the shape is only known
            when the step runs.
    """
    sparse = isinstance(gradient, tf.IndexedSlices)
    values = gradient.values if sparse else gradient
    shape, dtype = tf.TensorShape([None, *variable.shape[1:]] if sparse else variable.shape), tf.as_dtype(variable.dtype)
    if values.dtype != dtype or not values.shape.is_compatible_with(shape):
        raise CtrlabError(
            f"The gradient of variable {variable.name} must be {dtype.name} {shape}; received {values.dtype.name} {values.shape}."
        )
    if values.shape[1 if sparse else 0 :].is_fully_defined():
        return gradient
    values = tf.ensure_shape(values, shape)
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape) if sparse else values


def halved_squares(variables, gradients) -> tf.Tensor:
    """Half the sum of squares of each gradient, float32 [n]; for sharded rows over all workers.

    Args:
        variables, gradients: at least one of each; gradients checked by `fitting`, dense or merged `tf.IndexedSlices`.
    """
    values = [gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient for gradient in gradients]
    own = tf.stack([tf.nn.l2_loss(_wide(value)) for value in values])
    sharded = [whole_batch.is_sharded(variable) for variable in variables]
    if not any(sharded):
        return own
    return tf.where(sharded, whole_batch.total(tf.where(sharded, own, 0)), own)


def finite(variables, norms: tf.Tensor, steps: tf.Tensor) -> tf.Operation | None:
    """The op that raises InvalidArgumentError if a gradient is not finite; None if the check ran eagerly.

    The sum of squares is finite only if every number is, and it is one pass without a copy. A finite gradient whose squares
    overflow is refused too: Adagrad, FTRL and Adam would add them to a slot, which would stay inf.

    Args:
        norms: `halved_squares` of the gradients of these variables.
        steps: number of steps taken so far.
    """
    sound = tf.math.is_finite(norms)
    worst = tf.gather([getattr(variable, "path", variable.name) for variable in variables], tf.argmin(tf.cast(sound, tf.int32)))
    sentence = "A gradient and the sum of its squares must be finite; nothing was changed; received other numbers for"
    return tf.raw_ops.Assert(condition=tf.reduce_all(sound), data=[sentence, worst, "after", steps, CURE])


def clip_factor(squares: tf.Tensor, norm: float) -> tf.Tensor:
    """The factor for a gradient with this sum of squares, so that its L2 norm is at most `norm`."""
    return norm / tf.maximum(tf.sqrt(squares), norm)


def scaled(gradient, factor: tf.Tensor):
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient * factor
    return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)


def _wide(value: tf.Tensor) -> tf.Tensor:
    return tf.cast(value, tf.float32) if value.dtype.size < 4 else tf.cast(value, value.dtype)


def of_finite(loss: tf.Tensor, steps: tf.Tensor, skips: bool) -> tf.Tensor:
    """The loss. As with `ctrlab.models.held.given_if`, its gradient is only given if the loss is finite."""
    whole = whole_batch.total(tf.stop_gradient(loss))  # so that no worker goes on alone
    sentence = ["The loss must be finite; nothing was changed; received", whole, "after", steps, CURE]
    return given_if(tf.reduce_all(tf.math.is_finite(whole)), loss, sentence, skips)


def ids_are_rows(variable, gradient: tf.IndexedSlices) -> tf.Operation | None:
    """The op that raises InvalidArgumentError if an id of a sparse gradient is not a row; None if the check ran eagerly."""
    rows, ids = variable.shape[0], gradient.indices
    first, last = tf.reduce_min(ids), tf.reduce_max(ids)  # without ids the check passes
    sentence = f"The ids of variable {variable.name} must be in [0, {rows}); nothing was changed; received ids from"
    return tf.raw_ops.Assert(condition=(first >= 0) & (last < rows), data=[sentence, first, "to", last])
