"""A column's default in place of what is missing."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.schema import Categorical, Column, Numeric


def filled(values: pa.Array, column: Column) -> pa.Array:
    """A column of a conformed table with its default where a number, an id or a word is missing or the word is empty; labels and
    lists unchanged."""
    if isinstance(column, Numeric):
        return values.fill_null(column.default)
    if not isinstance(column, Categorical):
        return values
    if column.bits:
        return values.fill_null(int(column.default or 0))
    words = pa.concat_arrays([values.dictionary, pa.array([column.default])])
    words = pc.if_else(pc.equal(words, ""), column.default, words)
    return pa.DictionaryArray.from_arrays(values.indices.fill_null(len(words) - 1), words)
