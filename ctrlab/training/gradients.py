"""Checks on gradients that run before the step changes the first variable."""

from __future__ import annotations

import tensorflow as tf

from ctrlab.errors import CtrlabError


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


def checked(gradient) -> tf.Tensor:
    """A tensor that the step must wait for. After it, the variable's kernel has nothing left to refuse.

    Args:
        gradient: already checked by `fitting`: dense, or merged `tf.IndexedSlices` whose ids are rows.
    """
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def ids_are_rows(variable, gradient: tf.IndexedSlices) -> tf.Operation | None:
    """The op that raises InvalidArgumentError if an id of a sparse gradient is not a row; None if the check ran eagerly."""
    rows, ids = variable.shape[0], gradient.indices
    first, last = tf.reduce_min(ids), tf.reduce_max(ids)  # without ids the check passes
    sentence = f"The ids of variable {variable.name} must be in [0, {rows}); nothing was changed; received ids from"
    return tf.raw_ops.Assert(condition=(first >= 0) & (last < rows), data=[sentence, first, "to", last])
