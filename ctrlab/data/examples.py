"""The rows of a table as serialized tf.train.Examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from tensorflow.train import BytesList, Example, Feature, Features, FloatList, Int64List

from ctrlab.data.text import plain
from ctrlab.schema import Categorical, Column, Label, Numeric, NumericList, Schema


def examples(table: pa.Table, schema: Schema) -> Iterator[bytes]:
    """One record per row. Missing values, empty texts and empty lists are left out; the reader inserts the default."""
    names = [column.name for column in schema.columns]
    columns = [map(_feature(column), _values(table[column.name].combine_chunks())) for column in schema.columns]
    for row in zip(*columns):
        features = {name: feature for name, feature in zip(names, row) if feature is not None}
        yield Example(features=Features(feature=features)).SerializeToString()


def _values(array: pa.Array) -> list:
    """Converts a column to Python values: lists as lists, text as bytes."""
    if pa.types.is_list(array.type):
        entries = _values(array.flatten())
        ends = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).cumsum().tolist()
        return [entries[start:end] for start, end in zip([0, *ends], ends)]
    array = plain(array)
    return (array.cast(pa.binary()) if pa.types.is_string(array.type) else array).to_pylist()


def _feature(column: Column) -> Callable:
    """A function from a value of the column to a Feature, or None."""
    if isinstance(column, Label | Numeric):
        return lambda value: None if value is None else Feature(float_list=FloatList(value=[value]))
    one = isinstance(column, Categorical)
    numbers, whole = isinstance(column, NumericList), getattr(column, "bits", None)

    def feature(value):
        if value is None or value in (b"", []):
            return None
        value = [value] if one else value
        if numbers:
            return Feature(float_list=FloatList(value=value))
        if whole:
            return Feature(int64_list=Int64List(value=value))
        return Feature(bytes_list=BytesList(value=value))

    return feature
