"""The Arrow type of each column. Generators, converters and readers all use it, for tables and for Parquet."""

from __future__ import annotations

import pyarrow as pa

from ctrlab.schema import Categorical, Column, IdColumn, Label, MultiHot, Numeric, NumericList, Schema, Sequence

TEXT = pa.dictionary(pa.int32(), pa.string())


def arrow_type(column: Column) -> pa.DataType:
    """float32, int64 (identity ids), int32 (encoded ids), dictionary-encoded text, or a list of one of them."""
    match column:
        case Label() | Numeric():
            return pa.float32()
        case NumericList():
            return pa.list_(pa.float32())
        case Categorical():
            return _whole(column) or TEXT
        case MultiHot() | Sequence():
            return pa.list_(_whole(column) or pa.string())
    raise TypeError(f"A column of the kind {type(column).__name__} has no Arrow type.")


def _whole(column: IdColumn) -> pa.DataType | None:
    return {None: None, 32: pa.int32(), 64: pa.int64()}[column.bits]


def arrow_schema(schema: Schema) -> pa.Schema:
    """The schema's columns, in its order."""
    return pa.schema([(column.name, arrow_type(column)) for column in schema.columns])
