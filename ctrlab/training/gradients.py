"""What a step refuses of a gradient, found before the first variable changes."""

from __future__ import annotations

import tensorflow as tf

from ctrlab.errors import CtrlabError


def fitting(variable, gradient):
    """The gradient, dense or `tf.IndexedSlices`; in a graph, once its shape is known to be the variable's.

    Raises:
        CtrlabError: another shape or type than the variable's. InvalidArgumentError, when it runs: a shape that only the step
            knows.
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


def checked(gradient) -> tf.Tensor:
    """What a step must wait for: once it has run, the variable's kernel has nothing left to refuse.

    Args:
        gradient: dense, or merged `tf.IndexedSlices` whose ids are rows, that is `fitting`.
    """
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def ids_are_rows(variable, gradient: tf.IndexedSlices) -> tf.Operation | None:
    """The op that refuses a sparse gradient's ids by an InvalidArgumentError where one is no row; None where it ran at once."""
    rows, ids = variable.shape[0], gradient.indices
    first, last = tf.reduce_min(ids), tf.reduce_max(ids)  # of no ids the type's largest and smallest number, which fit
    sentence = f"The ids of variable {variable.name} must be in [0, {rows}); nothing was changed; received ids from"
    return tf.raw_ops.Assert(condition=(first >= 0) & (last < rows), data=[sentence, first, "to", last])
