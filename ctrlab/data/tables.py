"""Checks and casts tables of a data set to the columns and types of its schema."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.data import values as rules
from ctrlab.data.arrow import arrow_schema
from ctrlab.data.outputs import ENCODING
from ctrlab.errors import BadData, hint
from ctrlab.schema import Schema, frames, words


def conform(table: pa.Table, schema: Schema, where: str, before: int = 0) -> pa.Table:
    """The table in `arrow_schema(schema)`: selects and orders columns, encodes text with dictionaries, casts numbers.

    Values in a column of words become words: see `ctrlab.schema.words`. A column without any value, and lists
    without any entry, may have any type, because Arrow and pandas can't tell what is missing.

    Args:
        where: the table's origin, for messages.
        before: number of the origin's rows that precede this table. Messages count rows from 0.
    Raises:
        BadData: a column is missing, there twice or of another kind, or its values don't fit: a missing label, a label that is
            not 0 or 1, a number that is NaN, infinite or too large, an id outside its table, an entry of a list that is missing,
            empty or has the separator in it.
    """
    if ENCODING in (table.schema.metadata or {}) and not any(column.encoded for column in schema.id_columns):
        raise BadData(f"{where} holds ids in place of words (see `ctrlab.data.encode`); use the schema's `encoded()` for it.")
    columns = [_column(table, field, schema, where, before) for field in arrow_schema(schema)]
    return pa.table(columns, schema=arrow_schema(schema))


def _column(table: pa.Table, field: pa.Field, schema: Schema, where: str, before: int) -> pa.ChunkedArray:
    if field.name not in table.column_names:
        near = hint(field.name, table.column_names)
        has = ", ".join(table.column_names)
        raise BadData(f"{where} has no column {field.name!r}, which {schema.name} needs; it has {has}.{near}")
    if table.column_names.count(field.name) > 1:
        raise BadData(f"{where} has {field.name!r} more than once; each column has a name of its own: rename or drop the others.")
    values = _without_null_words(frames.usual(table[field.name]))
    if holds_nothing(values, field.type):
        values = _nothing(values, field.type)
    if not fits(values.type, field.type):
        raise BadData(f"{where}: " + _odd(f"column {field.name!r} of {schema.name}", field.type, values.type))
    column = schema[field.name]
    if values.null_count and (column.kind == "label" or (pa.types.is_integer(field.type) and not column.default)):
        raise BadData(f"{where}: column {field.name!r} must not be empty; {values.null_count} rows have no value in it.")
    try:
        made = _with_words(_cast(values, field.type))
    except pa.ArrowInvalid as error:
        if (fraction := _fraction(values)) is not None:
            said = _odd(f"column {field.name!r}", field.type, f"{values.type}, and has {fraction!r}")
            raise BadData(f"{where}: {said}") from None
        raise BadData(f"{where}: column {field.name!r} must be {field.type}: {error}") from None
    _check_entries(made, column, where)
    _check_numbers(made, values, column, where, before)
    return made


def holds_nothing(values: pa.ChunkedArray | pa.Array, target: pa.DataType) -> bool:
    """Whether a column of `target` has rows without any value, or lists without any entry, so that its own type says nothing."""
    if values.null_count == len(values):
        return len(values) > 0 or _is_nothing(values.type)
    return pa.types.is_list(target) and _is_list(values.type) and not len(pc.list_flatten(values))


def _nothing(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """As many missing values, or empty lists, of the type `target`."""
    if values.null_count == len(values):
        return pa.chunked_array([pa.nulls(len(values), target)])
    ends, missing = pa.array(np.zeros(len(values) + 1, np.int32)), pa.array(values.is_null().to_numpy())
    return pa.chunked_array([pa.ListArray.from_arrays(ends, pa.nulls(0, target.value_type), mask=missing)])


def _odd(column: str, target: pa.DataType, found: object) -> str:
    wanted, cure = str(target), "such lists" if pa.types.is_list(target) else "numbers"
    if pa.types.is_dictionary(target):
        wanted, cure = "words or whole numbers", "text"
    return f"{column} must be {wanted}; it is {found}: make {cure} of it."


def _fraction(values: pa.ChunkedArray) -> float | None:
    """The first number, alone or in a list, that is not a whole number of 64 bits; None if there is none."""
    for chunk in values.chunks:
        while pa.types.is_dictionary(chunk.type) or pa.types.is_nested(chunk.type):
            chunk = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk.flatten()
        if pa.types.is_floating(chunk.type):
            numbers = chunk.drop_null().cast(pa.float64()).to_numpy()
            odd = numbers[~((numbers == np.floor(numbers)) & (np.abs(numbers) < 2.0**63))]
            if len(odd):
                return float(odd[0])
    return None


def _without_null_words(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Removes null from a dictionary's words. Values that refer to it become missing values, as in other columns."""
    if pa.types.is_dictionary(values.type) and any(chunk.dictionary.null_count for chunk in values.chunks):
        return pa.chunked_array([chunk.dictionary_decode() for chunk in values.chunks], values.type.value_type)
    return values


def _cast(values: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Casts a column. Words are encoded with a dictionary; whole numbers among them, which pandas turns into floats, become text
    without a fraction.
    """
    if values.type == target:
        return values
    if pa.types.is_dictionary(values.type) and _is_words(values.type.value_type) and pa.types.is_dictionary(target):
        return values.cast(target)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_dictionary(target):
        return _text(values).dictionary_encode()
    if pa.types.is_list(target) and pa.types.is_dictionary(values.type.value_type):
        values = values.cast(pa.list_(values.type.value_type.value_type))
    if pa.types.is_list(target) and pa.types.is_string(target.value_type) and pa.types.is_floating(values.type.value_type):
        values = values.cast(pa.list_(pa.int64()))
    if pa.types.is_floating(target):
        values = values.cast(pa.float64(), safe=False)  # a whole number is rounded as others are; Arrow would refuse it
    elif pa.types.is_list(target) and pa.types.is_floating(target.value_type):
        values = values.cast(pa.list_(pa.float64()), safe=False)
    return values.cast(target)


def _with_words(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with the words of its texts, alone or in lists; other columns are unchanged."""
    if pa.types.is_dictionary(values.type):
        return pa.chunked_array([_words_of_encoded(chunk) for chunk in values.chunks], values.type)
    if pa.types.is_list(values.type) and pa.types.is_string(values.type.value_type):
        return pa.chunked_array([_words_of_lists(chunk) for chunk in values.chunks], values.type)
    return values


def _words_of_encoded(chunk: pa.DictionaryArray) -> pa.DictionaryArray:
    texts = chunk.dictionary if len(chunk.dictionary) <= len(chunk) else chunk.dictionary.take(chunk.indices.unique().drop_null())
    return chunk if words.words(texts) is texts else words.words(chunk.dictionary_decode()).dictionary_encode()


def _words_of_lists(chunk: pa.ListArray) -> pa.ListArray:
    texts = chunk.flatten()
    made = words.words(texts)
    if made is texts:
        return chunk
    ends = np.cumsum(pc.fill_null(pc.list_value_length(chunk), 0).to_numpy(), dtype=np.int32)
    return pa.ListArray.from_arrays(np.r_[np.int32(0), ends], made, mask=chunk.is_null())


def _text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return (values.cast(pa.int64()) if pa.types.is_floating(values.type) else values).cast(pa.string())


def _check_entries(made: pa.ChunkedArray, column, where: str) -> None:
    """Refuses list entries that would be lost or cut when a list is joined into one text."""
    if not pa.types.is_list(made.type):
        return
    entries = made.combine_chunks().flatten()
    if entries.null_count or (pa.types.is_string(entries.type) and pc.any(pc.equal(entries, "")).as_py()):
        raise BadData(f"{where}: the entries of a list must not be empty; column {column.name!r} has a list with an empty one.")
    if pa.types.is_string(entries.type):
        torn = entries.filter(pc.match_substring(entries, column.separator))
        if len(torn):
            raise BadData(
                f"{where}: the entries of column {column.name!r} can't hold its separator {column.separator!r}; found "
                f"{torn[0].as_py()!r}: give the column another separator=."
            )


def _check_numbers(made: pa.ChunkedArray, given: pa.ChunkedArray, column, where: str, before: int) -> None:
    """Refuses labels, numbers and ids that break their rule. `made` holds them as they will be read, `given` as they came."""
    is_list = pa.types.is_list(made.type)
    if not _is_number(made.type.value_type if is_list else made.type):
        return
    numbers = made.combine_chunks().flatten() if is_list else made.fill_null(0)
    at = rules.first_bad(numbers.to_numpy(), column)
    if at is None:
        return
    row = at
    if is_list:
        lengths = made.combine_chunks().value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        row = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
    found = given[row].as_py()
    raise BadData(f"{where}: column {column.name!r} must {rules.rule(column)}; row {before + row}, counted from 0, has {found}.")


def fits(type: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of `type` can be cast: numbers of any width, words plain or encoded, lists of them or of nothing."""
    if pa.types.is_dictionary(type):
        return fits(type.value_type, target)
    if pa.types.is_dictionary(target):
        return fits(type, target.value_type)
    if pa.types.is_list(target):
        return _is_list(type) and (pa.types.is_null(type.value_type) or fits(type.value_type, target.value_type))
    if pa.types.is_string(target):
        return _is_words(type) or pa.types.is_integer(type) or pa.types.is_floating(type)
    return _is_number(type) or (pa.types.is_boolean(type) and pa.types.is_floating(target))


def _is_nothing(type: pa.DataType) -> bool:
    return pa.types.is_null(type) or (pa.types.is_dictionary(type) and pa.types.is_null(type.value_type))


def _is_words(type: pa.DataType) -> bool:
    return pa.types.is_string(type) or pa.types.is_large_string(type)


def _is_list(type: pa.DataType) -> bool:
    return pa.types.is_list(type) or pa.types.is_large_list(type)


def _is_number(type: pa.DataType) -> bool:
    return pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type)
