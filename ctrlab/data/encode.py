"""Encodes words as ids offline. A model otherwise does this in its first ops, for every row, in every epoch.

The ids are identical: same hash (TensorFlow's FarmHash64), same vocabulary position or number as in the model's encoder
(`ctrlab.models.blocks`). So encoded files only fit the tables of one schema, and their metadata say which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.data.arrow import arrow_schema, arrow_type
from ctrlab.data.missing import filled
from ctrlab.data.outputs import encoding_of
from ctrlab.data.tables import conform
from ctrlab.errors import BadData
from ctrlab.schema import Categorical, Column, IdColumn, Schema


def encode(tables: Iterable[pa.Table], schema: Schema) -> Iterator[pa.Table]:
    """Converts tables of `schema` to tables of `schema.encoded()`: words become ids, missing values become defaults.

    Raises:
        BadData: a table lacks a column, or an identity id is outside its table.

    >>> write(encode(tables, schema), schema.encoded(), "train.parquet")     # doctest: +SKIP
    """
    target = schema.encoded()
    for table in tables:
        table = conform(table, schema, "A table to encode")
        arrays = [_column(table[c.name].combine_chunks(), c, target[c.name]) for c in schema.columns]
        yield pa.table(arrays, schema=arrow_schema(target).with_metadata(encoding_of(target)))


def _column(values: pa.Array, column: Column, target: Column) -> pa.Array:
    if not isinstance(column, IdColumn):
        return filled(values, column)
    if isinstance(column, Categorical):
        return _ids(filled(values, column), column).cast(arrow_type(target))
    lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    splits = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(splits, _ids(values.flatten(), column).cast(arrow_type(target).value_type))


def _ids(values: pa.Array, column: IdColumn) -> pa.Array:
    """int64 ids. Each distinct word of dictionary-encoded text is hashed once."""
    if pa.types.is_dictionary(values.type):
        return _ids(values.dictionary, column).take(values.indices)
    if column.encoding == "hash":
        import tensorflow as tf  # imported here, so that converters do not need it

        return pa.array(tf.strings.to_hash_bucket_fast(values.cast(pa.binary()).to_pylist(), column.buckets).numpy())
    if column.encoding == "vocabulary":
        return pc.index_in(values, pa.array(column.vocabulary)).fill_null(-1).cast(pa.int64())
    found = pc.min_max(values)
    if len(values) and not 0 <= found["min"].as_py() <= found["max"].as_py() < column.buckets:
        least, most = found["min"], found["max"]
        raise BadData(f"Ids of column {column.name!r} must lie in [0, {column.buckets}); received {least} to {most}.")
    return values
