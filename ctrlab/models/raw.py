"""The raw features that a model takes. Their types are checked when a graph is made, at no cost to a step; their numbers in each
call, because TensorFlow's own product with a ReLU makes 0 of NaN. For the same reason a number of an answer is clipped after its
transform: one near the largest float32 would overflow inside the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import tensorflow as tf

from ctrlab.errors import BadData
from ctrlab.models import sharing
from ctrlab.ops.references.raw import is_list
from ctrlab.schema import Column, IdColumn, Numeric, NumericList

Values = tf.Tensor | tf.RaggedTensor
FINITE = "Numbers must be finite, and such as float32 holds"
CURE = "fill what is missing with the column's default"
LARGEST = 1e18
"""A number of an answer has at most this size. Its square and its products with weights stay below 3.4e38, and a time in
microseconds stays what it is."""
SHOWN = 8
"""The most columns that a sentence names."""


def taken(columns: Sequence[Column], features: Mapping[str, Values]) -> list[Values]:
    """The features of these columns, in their order; numbers of any width as float32.

    Whole numbers in a column of words count as ids only in the type that encoded files use (int32 if the table has at most 2^31
    buckets): the id 438 is a different row from the word "438".

    Raises:
        BadData: a column is missing, or its values are of another type or shape.
    """
    if missing := [c.name for c in columns if c.name not in features]:
        raise BadData(
            f"A batch needs every feature of the schema; {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing in "
            f"{', '.join(map(str, features)) or 'no feature'}: add {'it' if len(missing) == 1 else 'them'}."
        )
    return [_values(column, sharing.bare(features[column.name])) for column in columns]


def finite(columns: Sequence[Column], values: Sequence[Values], numbers: tf.Tensor) -> tf.Tensor:
    """`numbers`, a matrix that was made of the columns' `values`, after a check that all of these are finite numbers.

    Raises:
        InvalidArgumentError: one is NaN or infinite, or none that float32 holds.
    """
    flat = [values.flat_values if isinstance(values, tf.RaggedTensor) else values for values in values]
    given = [each for each in flat if each.dtype != tf.string]
    if len(given) < len(flat):
        given.append(tf.reshape(numbers, [-1]))  # made of text
    names = ", ".join(column.name for column in columns[:SHOWN]) + (", ..." if len(columns) > SHOWN else "")
    good = tf.reduce_all(tf.math.is_finite(tf.concat(given, 0)))
    check = tf.raw_ops.Assert(condition=good, data=[f"{FINITE}; one of {names} is not: {CURE}."])
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(numbers)


def clipped(columns: Sequence[Numeric | NumericList], numbers: tf.Tensor, checked: bool) -> tf.Tensor:
    """`numbers` [B, C], those of `minmax` within [0, 1]. Without it one value far outside the range that a model was trained on
    would alone make its answer 0 or 1.

    Args:
        checked: whether raw values are finite, as where answers are made; then all others are within `LARGEST`. A training step
            gets what it got, so that its loss or its gradient refuses what is too large or not finite.
    """
    limit = LARGEST if checked else math.inf
    bounds = {"minmax": (0.0, 1.0), "log1p": (-math.inf, math.inf)}  # a logarithm is at most 89
    low, high = zip(*(bounds.get(column.transform, (-limit, limit)) for column in columns))
    if max(high) == min(high) == math.inf:
        return numbers
    found = tf.clip_by_value(numbers, tf.constant(low), tf.constant(high))
    return found if checked else tf.where(tf.math.is_finite(numbers), found, numbers)


def _values(column: Column, values) -> Values:
    if not isinstance(values, tf.RaggedTensor):
        try:
            values = tf.convert_to_tensor(values)
        except (TypeError, ValueError):
            raise BadData(
                f"The values of column {column.name!r} must be a tensor or an array; received {type(values).__name__}."
            ) from None
    _require_shape(column, values)
    if values.shape.rank is None:  # batches of several ranks came
        said = f"The values of column {column.name!r} must be [B] in each batch; received others: reshape them to [-1]."
        with tf.control_dependencies([tf.raw_ops.Assert(condition=tf.equal(tf.rank(values), 1), data=[said])]):
            values = tf.reshape(values, [-1])
    if not isinstance(column, IdColumn):
        return _numbers(column, values)
    if values.dtype == tf.string or values.dtype.name in (allowed := _integers(column)):
        return values
    raise BadData(
        f"Column {column.name!r} takes text, or ids made offline as {' or '.join(allowed)}; received {values.dtype.name}: write "
        "the values as text, or give the column encoding='identity' if they are whole numbers from 0 to its number of buckets."
    )


def _integers(column: IdColumn) -> tuple[str, ...]:
    """The integer types whose values count as ids of this column."""
    if column.encoding == "identity" and not column.encoded:
        return ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32")
    return (f"int{column.id_bits}",)


def _numbers(column: Column, values: Values) -> Values:
    if values.dtype == tf.string and is_list(column) and not isinstance(values, tf.RaggedTensor):
        return values
    if not (values.dtype.is_floating or values.dtype.is_integer or values.dtype.is_bool):
        raise BadData(f"Column {column.name!r} takes numbers; received {values.dtype.name}: convert them to float32.")
    return tf.cast(values, tf.float32)


def _require_shape(column: Column, values: Values) -> None:
    if isinstance(values, tf.RaggedTensor):
        good = is_list(column) and values.ragged_rank == 1 and values.values.shape.rank == 1
    else:
        good = values.shape.rank in (None, 1) and (values.dtype == tf.string or not is_list(column))
    if good:
        return
    wanted = "a ragged [B, (L)], or text [B] in which they are joined" if is_list(column) else "[B]"
    cure = "tf.RaggedTensor.from_row_lengths makes one" if is_list(column) else "reshape them to [-1]"
    kind = "a ragged" if isinstance(values, tf.RaggedTensor) else "a dense"
    raise BadData(f"The values of column {column.name!r} must be {wanted}; received {kind} {values.shape}: {cure}.")
