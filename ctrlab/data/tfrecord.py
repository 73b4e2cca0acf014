"""TFRecord: one tf.train.Example per row; an empty field is an absent feature."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import tensorflow as tf

from ctrlab.data import values
from ctrlab.data.text import join
from ctrlab.schema import Categorical, Column, Label, Numeric, NumericList, Schema, entry_dtype

NO_EMPTY_WORDS = "must have no empty words in its lists"


def decode(records: tf.Tensor, schema: Schema, unsplit: Callable[[Column], bool]) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """Parses serialized Examples, string [B], into columns by name; list columns that are `unsplit` are joined to text."""
    parsed = tf.io.parse_example(records, {column.name: _feature(column) for column in schema.columns})
    columns = {}
    for column in schema.columns:
        found = parsed[column.name]
        if entry_dtype(column) == "string":
            found = _words(column, found)
        if isinstance(column, NumericList):
            found = fill_empty(found, [float(part) for part in column.default.split(column.separator)])
        columns[column.name] = _text(column, found) if unsplit(column) else tf.cast(found, entry_dtype(column))
    return columns


def _feature(column: Column):
    match column:
        case Label():
            return tf.io.FixedLenFeature([], tf.float32)
        case Numeric():
            return tf.io.FixedLenFeature([], tf.float32, column.default)
        case Categorical() if column.bits:
            return tf.io.FixedLenFeature([], tf.int64, int(column.default) if column.default else None)
        case Categorical():
            return tf.io.FixedLenFeature([], tf.string, column.default)
    dtype = entry_dtype(column)
    return tf.io.RaggedFeature(tf.as_dtype("int64" if dtype == "int32" else dtype), row_splits_dtype=tf.int64)


def _words(column: Column, found: tf.Tensor | tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
    """The words of a column: an empty one is a missing one. Lists have none."""
    if isinstance(column, Categorical):
        return tf.where(tf.equal(found, ""), column.default, found) if column.default else found
    there = tf.reduce_all(tf.not_equal(found.flat_values, ""))
    with tf.control_dependencies([tf.raw_ops.Assert(condition=there, data=[f"Column {column.name!r} {NO_EMPTY_WORDS}."])]):
        return found.with_flat_values(tf.identity(found.flat_values))


def fill_empty(ragged: tf.RaggedTensor, default: list[float]) -> tf.RaggedTensor:
    """Numbers [B, (L)]; rows without numbers get `default`."""
    empty = tf.cast(tf.equal(ragged.row_lengths(), 0), tf.int64)  # [B]
    filler = tf.tile(tf.constant(default, tf.float32), tf.reduce_sum(empty, keepdims=True))
    return tf.concat([ragged, tf.RaggedTensor.from_row_lengths(filler, empty * len(default), validate=False)], axis=1)


def explain(record: bytes, schema: Schema) -> str | None:
    """Says which label, number or id of a record breaks its rule; None if none does."""
    features = tf.train.Example.FromString(record).features.feature
    for column in schema.columns:
        whole = bool(getattr(column, "bits", None))
        if whole or isinstance(column, Label | Numeric | NumericList):
            feature = features[column.name]
            found = np.array(feature.int64_list.value if whole else feature.float_list.value, np.int64 if whole else np.float32)
            if (at := values.first_bad(found, column)) is not None:
                return f"column {column.name!r} must {values.rule(column)}; received {found[at]}."
        elif not isinstance(column, Categorical):
            words = features[column.name].bytes_list.value
            if b"" in words:
                return f"column {column.name!r} {NO_EMPTY_WORDS}; it has one: leave it out."
            if torn := [word.decode(errors="replace") for word in words if column.separator.encode() in word]:
                cure = "read ragged lists, or give the column another separator="
                return f"column {column.name!r} {_no_separator(column)}; received {torn[0]!r}: {cure}."
    return None


def _no_separator(column: Column) -> str:
    return f"must have no {column.separator!r}, its separator, in words that are joined to a text"


def _text(column: Column, ragged: tf.RaggedTensor) -> tf.Tensor:
    """Joins entries [B, (L)] into text, string [B]. Arrow formats the numbers, as in the CSV files."""
    if ragged.dtype == tf.string:
        words = tf.strings.reduce_join(ragged.flat_values, separator="\n")  # one text: to look at each word takes twice as long
        torn = tf.strings.regex_full_match(words, rf"\C*{re.escape(column.separator)}\C*")
        with tf.control_dependencies(
            [tf.raw_ops.Assert(condition=~torn, data=[f"Column {column.name!r} {_no_separator(column)}."])]
        ):
            return tf.strings.reduce_join(ragged, axis=1, separator=column.separator)

    def joined(splits, values):
        entries = pa.ListArray.from_arrays(splits.astype("int32"), values)
        return join(entries, column.separator).to_numpy(zero_copy_only=False)

    text = tf.numpy_function(joined, [ragged.row_splits, ragged.flat_values], tf.string)
    return tf.ensure_shape(text, [ragged.shape[0]])
