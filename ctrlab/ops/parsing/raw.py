"""How the parsing ops describe raw columns to the compiled library: see native/ops/raw_columns.h."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab.ops.references.raw import is_list
from ctrlab.schema import Column


def describe(columns: Sequence[Column], values: Sequence, types: Sequence[tf.DType]) -> dict:
    """The inputs and attributes that ParseIds and ParseNumbers share.

    Args:
        types: the type to which the values of each column are cast if they are not text.
    """
    inputs, splits, layouts = [], [], []
    for column, value, dtype in zip(columns, values, types):
        ragged = isinstance(value, tf.RaggedTensor)
        if ragged:
            splits.append(tf.cast(value.row_splits, tf.int64))
            value = value.values
        value = tf.convert_to_tensor(value)
        inputs.append(value if value.dtype == tf.string else tf.cast(value, dtype))
        layouts.append("ragged" if ragged else "joined" if is_list(column) else "single")
    separators = [column.separator if layout == "joined" else "" for column, layout in zip(columns, layouts)]
    names = [column.name for column in columns]
    return {"values": inputs, "splits": splits, "names": names, "layouts": layouts, "separators": separators}
