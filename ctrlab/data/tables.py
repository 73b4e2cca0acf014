"""Checks and casts tables of a data set to the columns and types of its schema."""

from __future__ import annotations

import pyarrow as pa

from ctrlab.data.arrow import arrow_schema
from ctrlab.errors import BadData
from ctrlab.features import Schema


def conform(table: pa.Table, schema: Schema, where: str) -> pa.Table:
    """The table in `arrow_schema(schema)`: selects and orders columns, encodes text with dictionaries, casts numbers.

    Args:
        where: the table's origin, for messages.
    Raises:
        BadData: a column is missing or of another kind, or its values don't fit (a missing label, a number that is too large).
    """
    return pa.table([_column(table, field, schema, where) for field in arrow_schema(schema)], schema=arrow_schema(schema))


def _column(table: pa.Table, field: pa.Field, schema: Schema, where: str) -> pa.ChunkedArray:
    if field.name not in table.column_names:
        raise BadData(f"{where} has no column {field.name!r}, which {schema.name} needs; it has {', '.join(table.column_names)}.")
    values = table[field.name]
    if not _fits(values.type, field.type):
        raise BadData(f"{where}: column {field.name!r} of {schema.name} must be {field.type}; it is {values.type}.")
    column = schema[field.name]
    if values.null_count and (column.kind == "label" or (pa.types.is_integer(field.type) and not column.default)):
        raise BadData(f"{where}: column {field.name!r} must not be empty; {values.null_count} rows have no value in it.")
    if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(values.type):
        return values.cast(pa.string()).dictionary_encode()
    try:
        return values if values.type == field.type else values.cast(field.type)
    except pa.ArrowInvalid as error:
        raise BadData(f"{where}: column {field.name!r} must be {field.type}: {error}") from None


def _fits(type: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of `type` can be cast: numbers of any width, text plain or encoded, lists of such types, or all null."""
    if pa.types.is_dictionary(type):
        return _fits(type.value_type, target)
    if pa.types.is_dictionary(target):
        return _fits(type, target.value_type)
    if pa.types.is_list(target):
        return (pa.types.is_list(type) or pa.types.is_large_list(type)) and _fits(type.value_type, target.value_type)
    if pa.types.is_string(target):
        return pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_null(type)
    return pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_boolean(type) or pa.types.is_null(type)
