"""The rows of a table in memory as the features that a reader yields for the same rows of a file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import tensorflow as tf

from ctrlab.data.missing import filled
from ctrlab.data.tfrecord import fill_empty
from ctrlab.schema import Column, NumericList, Schema


def features_of(table: pa.Table, schema: Schema) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """Features by name, as `ctrlab.data.read` gives them, with ragged lists.

    Args:
        table: a result of `ctrlab.data.tables.conform`.
    """
    return {column.name: _feature(table[column.name].combine_chunks(), column) for column in schema.features}


def _feature(values: pa.Array, column: Column) -> tf.Tensor | tf.RaggedTensor:
    if not pa.types.is_list(values.type):
        return _flat(filled(values, column))
    lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    ragged = tf.RaggedTensor.from_row_lengths(_flat(values.flatten()), lengths, validate=False)
    if isinstance(column, NumericList):
        return fill_empty(ragged, [float(part) for part in column.default.split(column.separator)])
    return ragged


def _flat(values: pa.Array) -> tf.Tensor:
    """The values as a tensor [n]. Each distinct word is converted once, as a conversion takes one Python object per element."""
    if pa.types.is_dictionary(values.type):
        used, places = np.unique(values.indices.to_numpy(), return_inverse=True)
        return tf.gather(_flat(values.dictionary.take(pa.array(used))), places)
    if pa.types.is_string(values.type):
        return tf.constant(values.cast(pa.binary()).to_pylist(), tf.string, [len(values)])
    return tf.constant(values.to_numpy(zero_copy_only=False))
