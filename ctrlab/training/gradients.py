"""What a step refuses of a gradient, found before the first variable changes."""

from __future__ import annotations

import tensorflow as tf

from ctrlab.errors import CtrlabError


def checked(variable, gradient, in_range: bool) -> list[tf.Tensor | tf.Operation]:
    """What a step must wait for: once all of it has run, the variable's kernel has nothing left to refuse.

    Args:
        gradient: dense, or merged `tf.IndexedSlices`.
        in_range: ids were checked when they were merged.
    Raises:
        CtrlabError: another shape or type than the variable's. InvalidArgumentError, when it runs: a shape that only the step
            knows, or an id that is no row.
    """
    sparse = isinstance(gradient, tf.IndexedSlices)
    values = gradient.values if sparse else gradient
    shape, dtype = tf.TensorShape([None, *variable.shape[1:]] if sparse else variable.shape), tf.as_dtype(variable.dtype)
    if values.dtype != dtype or not values.shape.is_compatible_with(shape):
        raise CtrlabError(
            f"The gradient of variable {variable.name} must be {dtype.name} {shape}; received {values.dtype.name} {values.shape}."
        )
    needed = [values]
    if not values.shape[1 if sparse else 0 :].is_fully_defined():
        needed.append(tf.ensure_shape(values, shape))
    if sparse and not in_range:
        rows, ids = variable.shape[0], gradient.indices
        sentence = f"The ids of variable {variable.name} must be in [0, {rows}); nothing was changed; received ids from"
        first, last = tf.reduce_min(ids), tf.reduce_max(ids)  # of no ids the type's largest and smallest number, which fit
        needed.append(tf.raw_ops.Assert(condition=(first >= 0) & (last < rows), data=[sentence, first, "to", last]))
    return [each for each in needed if each is not None]
