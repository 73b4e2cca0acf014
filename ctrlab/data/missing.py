"""Replaces missing values by the column's default."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.schema import Categorical, Column, Numeric


def filled(values: pa.Array, column: Column) -> pa.Array:
    """A column of a conformed table, with its default in place of missing numbers, ids and words and of empty words. Labels and
    lists are unchanged.
    """
    if isinstance(column, Numeric):
        return values.fill_null(column.default)
    if not isinstance(column, Categorical):
        return values
    if column.bits:
        return values.fill_null(int(column.default or 0))
    words = pa.concat_arrays([values.dictionary, pa.array([column.default])])
    words = pc.if_else(pc.equal(words, ""), column.default, words)
    return pa.DictionaryArray.from_arrays(values.indices.fill_null(len(words) - 1), words)
