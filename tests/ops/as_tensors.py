"""The NumPy arguments of a case as TensorFlow's, and back: what one test of all ops needs."""

import numpy as np
import tensorflow as tf

from ctrlab.ops.events import Events
from ctrlab.ops.references import arrays


def tensors(value):
    """An argument of a way, in float32, from one of the reference."""
    match value:
        case arrays.Events(splits, flat):
            return Events(tf.constant(splits), flat=tensors(flat))
        case arrays.Ragged(values, splits):
            return tf.RaggedTensor.from_row_splits(tensors(values), splits)
        case arrays.Slices(ids, rows):
            return tf.IndexedSlices(tensors(rows), tf.constant(ids))
        case arrays.Variable():
            return tf.Variable(tensors(np.asarray(value)))
        case np.ndarray():
            return tf.constant(value.astype(np.float32) if value.dtype == np.float64 else value)
        case list() | tuple():
            return type(value)(map(tensors, value))
        case dict():
            return {name: tensors(part) for name, part in value.items()}
    return value


def copied(value):
    """The same, so that a reference may change it in place."""
    match value:
        case np.ndarray():
            return value.copy()
        case arrays.Slices():
            return value
        case list() | tuple():
            return type(value)(map(copied, value))
        case dict():
            return {name: copied(part) for name, part in value.items()}
    return value


def leaves(value) -> list:
    """Arrays or tensors of an argument or a result, in order; slices dense up to their last id, in any order of ids."""
    match value:
        case Events() | arrays.Events():
            return [value.flat]
        case arrays.Ragged() | tf.RaggedTensor():
            return [value.values]
        case arrays.Slices() | tf.IndexedSlices():
            ids, rows = np.asarray(value.indices), np.asarray(value.values)
            assert len(np.unique(ids)) == len(ids), "an id comes twice"
            order = np.argsort(ids)
            return [ids[order], rows[order]]
        case list() | tuple():
            return [leaf for part in value for leaf in leaves(part)]
        case dict():
            return [leaf for part in value.values() for leaf in leaves(part)]
        case np.ndarray() | tf.Tensor() | tf.Variable() | np.generic():
            return [value]
    return []


def numbers(value) -> list:
    """The leaves that can have a gradient: floats. Of variables, too."""
    return [leaf for leaf in leaves(value) if tf.as_dtype(leaf.dtype).is_floating] if not _text(value) else []


def _text(value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "SU"


def replaced(value, new):
    """`value` with its float leaves taken from the iterator `new`."""
    match value:
        case arrays.Events(splits, flat):
            return arrays.Events(splits, replaced(flat, new))
        case arrays.Ragged(values, splits):
            return arrays.Ragged(replaced(values, new), splits)
        case np.ndarray() if value.dtype.kind == "f":
            return next(new)
        case list() | tuple():
            return type(value)(replaced(part, new) for part in value)
    return value
