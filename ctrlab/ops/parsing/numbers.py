"""Raw values of number columns to numbers, side by side.

    out[b, c] = t_c(x)        x: the number of row b in column c, or the mean of its list (0 of an empty one)
    t(x) = x,   log(1 + max(x - low, 0)),   or   (x - low) / (high - low)

Every implementation takes

    columns: C columns, Numeric or NumericList.
    values: C entries. A Numeric has float32 [B]; a NumericList has its text, string [B], or its numbers, ragged float32 [B, (L)].

and returns [B, C]: float32, of `reference` float64. In text, empty parts are ignored; others must be numbers as
tf.strings.to_number takes them (decimal or 0x, with exponent, inf, nan, white space around), or they are an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ctrlab import _native
from ctrlab.data.strings import split
from ctrlab.errors import CtrlabError
from ctrlab.ops.op import Op
from ctrlab.ops.parsing import raw
from ctrlab.ops.references import numbers as definition
from ctrlab.ops.references.raw import agree
from ctrlab.schema import Numeric, NumericList

Column = Numeric | NumericList


def baseline(columns: Sequence[Column], values: Sequence) -> tf.Tensor:
    """The library's own ops, column by column: split, drop empty parts, to_number, mean, transform; then one concat."""
    agree(columns, values)
    return tf.concat([_column(column, value) for column, value in zip(columns, values)], axis=1)


def _column(column: Column, values) -> tf.Tensor:
    """float32 [B, 1]."""
    if isinstance(column, NumericList):
        if not isinstance(values, tf.RaggedTensor):
            parts = split(values, column.separator)
            values = parts.with_flat_values(tf.strings.to_number(parts.flat_values, tf.float32))
        lengths = tf.cast(values.row_lengths(), tf.float32)
        values = tf.math.divide_no_nan(tf.reduce_sum(values, 1), lengths)  # [B]
    if column.transform == "log1p":
        values = tf.math.log1p(tf.maximum(values - column.low, 0.0))
    elif column.transform == "minmax":
        values = (values - column.low) / (column.high - column.low)
    return values[:, None]


def padded(columns: Sequence[Column], values: Sequence) -> tf.Tensor:
    """How the contest's models did it: split, pad with '0' to a matrix, to_number, sum over the number of parts.

    It only takes lists in text without a transform, and it refuses empty parts instead of leaving them out.

    Raises:
        CtrlabError: a column is not such a list.
    """
    agree(columns, values)
    for column, text in zip(columns, values):
        if not isinstance(column, NumericList) or column.transform != "none" or isinstance(text, tf.RaggedTensor):
            raise CtrlabError(f"The padded way takes lists in text without a transform; column {column.name!r} is another.")
    means = []
    for column, text in zip(columns, values):
        parts = tf.strings.split(text, column.separator)  # [B, (L)]
        total = tf.reduce_sum(tf.strings.to_number(parts.to_tensor("0")), axis=1)  # [B]
        means.append(total / tf.cast(parts.row_lengths(), tf.float32))
    return tf.stack(means, axis=1)


def fused(columns: Sequence[Column], values: Sequence) -> tf.Tensor:
    """One compiled op for all columns; differentiable in values that are numbers.

    Raises:
        CtrlabError: columns and values do not agree in number. InvalidArgumentError: rows do not agree, or a part of a text is
            not a number. NativeLibraryError: there is no compiled library for this TensorFlow.
    """
    agree(columns, values)
    return _native.library().ops.ctrlab_parse_numbers(
        **raw.describe(columns, values, [tf.float32] * len(columns)),
        transforms=[column.transform for column in columns],
        lows=[column.low for column in columns],
        widths=[column.high - column.low for column in columns],
    )


@tf.RegisterGradient("Ctrlab>ParseNumbers")
def _fused_gradient(op: tf.Operation, d_out: tf.Tensor) -> list[tf.Tensor | None]:
    layouts, transforms = op.get_attr("layouts"), op.get_attr("transforms")
    values, splits = list(op.inputs)[: len(layouts)], iter(list(op.inputs)[len(layouts) :])
    gradients = []
    for c, (x, layout, transform) in enumerate(zip(values, layouts, transforms)):
        if x.dtype == tf.string:
            gradients.append(None)
            continue
        ragged = tf.RaggedTensor.from_row_splits(x, next(splits), validate=False) if layout == b"ragged" else None
        if ragged is not None:
            x = tf.math.divide_no_nan(tf.reduce_sum(ragged, 1), tf.cast(ragged.row_lengths(), x.dtype))  # [B]
        low, d_x = op.get_attr("lows")[c], d_out[:, c]
        if transform == b"log1p":
            d_x = tf.where(x >= low, d_x / (1 + tf.maximum(x - low, 0.0)), 0.0)
        elif transform == b"minmax":
            d_x = d_x / op.get_attr("widths")[c]
        if ragged is not None:
            d_x = tf.gather(tf.math.divide_no_nan(d_x, tf.cast(ragged.row_lengths(), d_x.dtype)), ragged.value_rowids())  # [N]
        gradients.append(d_x)
    return gradients + [None] * (len(op.inputs) - len(values))


OP = Op("parse_numbers", rung="parsing", definition=definition, baseline=baseline, others={"padded": padded}, fused=fused)
