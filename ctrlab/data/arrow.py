"""The Arrow type of each column: what generators, converters and readers agree on in a table and in Parquet."""

from __future__ import annotations

import pyarrow as pa

from ctrlab.features import Categorical, Column, Label, MultiHot, Numeric, NumericList, Schema, Sequence

TEXT = pa.dictionary(pa.int32(), pa.string())


def arrow_type(column: Column) -> pa.DataType:
    """float32, int64 (identity ids), dictionary-encoded text, or a list of one of them."""
    match column:
        case Label() | Numeric():
            return pa.float32()
        case NumericList():
            return pa.list_(pa.float32())
        case Categorical():
            return pa.int64() if column.encoding == "identity" else TEXT
        case MultiHot() | Sequence():
            return pa.list_(pa.int64() if column.encoding == "identity" else pa.string())
    raise TypeError(f"A column of the kind {type(column).__name__} has no Arrow type.")


def arrow_schema(schema: Schema) -> pa.Schema:
    """The schema's columns, in its order."""
    return pa.schema([(column.name, arrow_type(column)) for column in schema.columns])
