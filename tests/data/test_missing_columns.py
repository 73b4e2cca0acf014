"""Columns without any value are what columns of the right type would be, whatever type Arrow, pandas or a file gives them."""

import dataclasses

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import data
from ctrlab.data.arrow import arrow_schema
from ctrlab.data.tables import conform
from ctrlab.errors import BadData
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence, frames

SCHEMA = Schema(
    "own",
    (
        Label("click"),
        Numeric("x", default=2.0),
        NumericList("xs", default="1;2"),
        Categorical("user", default="?"),
        Categorical("slot", encoding="identity", buckets=9, default="4"),
        Categorical("city", encoding="vocabulary", vocabulary=("Oslo", "Rome")),
        MultiHot("tags"),
        MultiHot("codes", encoding="identity", buckets=9),
        Sequence("past", of="user", table="user"),
    ),
)
FEATURES = [column.name for column in SCHEMA.features]
INNER = [pa.null(), pa.string(), pa.string_view(), pa.large_string(), pa.int64(), pa.float16(), pa.bool_(), pa.binary_view()]
TYPES = [
    *INNER,
    *(make(inner) for make in (pa.list_, pa.large_list, pa.list_view) for inner in INNER),
    pa.list_(pa.null(), 2),
    pa.dictionary(pa.int32(), pa.string()),
    pa.list_(pa.dictionary(pa.int32(), pa.string())),
    pa.timestamp("ns"),
    pa.decimal128(5, 2),
    pa.struct([("a", pa.int32())]),
    pa.map_(pa.string(), pa.int32()),
]
NOTHING = {
    "a Python list": lambda rows: [None] * rows,
    "a dictionary of nothing": lambda rows: pa.nulls(rows).dictionary_encode(),
    "words that are null": lambda rows: pa.DictionaryArray.from_arrays([0] * rows, pa.array([None], pa.string())),
    "views in a dictionary": lambda rows: pa.DictionaryArray.from_arrays(
        pa.nulls(rows, pa.int32()), pa.array(["a"], pa.string_view())
    ),
    "runs": lambda rows: pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), pa.nulls(1)),
} | {str(kind): lambda rows, kind=kind: pa.nulls(rows, kind) for kind in TYPES}
OBJECTS = {"None": None, "nan": np.nan, "pd.NA": pd.NA, "pd.NaT": pd.NaT}


def typed(rows: int, missing: list[str]) -> dict[str, pa.Array]:
    """Good rows, but with columns of the right type that lack every value."""
    good = {
        "click": [1.0],
        "x": [3.0],
        "xs": [[4.0]],
        "user": ["u"],
        "slot": [1],
        "city": ["Rome"],
        "tags": [["a"]],
        "codes": [[1]],
        "past": [["u"]],
    }
    types = arrow_schema(SCHEMA)
    return {
        name: pa.array([None] * rows if name in missing else values * rows, types.field(name).type)
        for name, values in good.items()
    }


def conformed(source) -> pa.Table:
    table = conform(frames.table(source, SCHEMA), SCHEMA, "The table")
    table.validate(full=True)
    return table


@settings(deadline=None)
@given(st.integers(1, 3), st.dictionaries(st.sampled_from(FEATURES), st.sampled_from([*NOTHING]), min_size=1), st.booleans())
def test_a_column_without_values_may_have_any_type_of_arrow(rows, kinds, in_chunks):
    columns = typed(rows, [])
    for name, kind in kinds.items():
        column = NOTHING[kind](rows)
        chunks = [column[:0], column[:1], column[1:], column[:0]]
        columns[name] = pa.chunked_array(chunks) if in_chunks and isinstance(column, pa.Array) else column
    assert conformed(columns).equals(conformed(typed(rows, [*kinds])))


@settings(deadline=None)
@given(st.lists(st.sampled_from([*OBJECTS.values()]), min_size=1, max_size=3), st.sampled_from(FEATURES), st.booleans())
def test_a_column_without_values_may_have_any_objects_of_pandas(values, name, as_object):
    rows = len(values)
    frame = pa.table(typed(rows, [])).to_pandas()
    frame[name] = pd.Series(values, dtype=object if as_object else None)
    assert conformed(frame).equals(conformed(typed(rows, [name])))


@pytest.mark.parametrize("kind", ["category", "string", "Int64", "float64", "datetime64[ns]", "object"])
def test_a_column_without_values_may_have_any_dtype_of_pandas(kind):
    for name in FEATURES:
        frame = pa.table(typed(2, [])).to_pandas()
        frame[name] = pd.Series([None, None], dtype=kind)
        assert conformed(frame).equals(conformed(typed(2, [name])))


def test_a_table_without_rows():
    frame = pa.table(typed(2, [])).to_pandas()
    for empty in (frame[:0], pd.DataFrame(columns=frame.columns), {name: [] for name in frame.columns}):
        assert conformed(empty).equals(conformed(typed(0, [])))
    with pytest.raises(BadData, match=r"'past' of own must be list.*; it is string"):
        conformed(typed(0, []) | {"past": pa.array([], pa.string())})


def test_labels_stay_required():
    for nothing in (pa.nulls(2), pa.nulls(2, pa.list_(pa.null())), [None, None]):
        with pytest.raises(BadData, match="'click' must not be empty; 2 rows"):
            conformed(typed(2, []) | {"click": nothing})


@pytest.mark.parametrize("lists", [[[], None], [[], []]])
def test_lists_of_nothing_are_empty_lists(lists):
    columns = [column.name for column in SCHEMA.columns if hasattr(column, "separator")]
    for kind in (pa.list_(pa.null()), pa.large_list(pa.null())):
        found = conformed(typed(2, []) | {name: pa.array(lists, kind) for name in columns})
        assert [found[name].to_pylist() for name in columns] == [lists] * len(columns)


@pytest.mark.parametrize("format", data.FORMATS)
def test_files_hold_defaults_and_empty_lists_where_nothing_was(tmp_path, format):
    path = tmp_path / f"rows{data.FORMATS[format][0]}"
    data.write(typed(2, []) | dict.fromkeys(FEATURES, pa.nulls(2)), SCHEMA, path, progress=False)
    assert read_one(path) == AS_MISSING


def test_a_parquet_file_of_others_may_have_columns_of_nothing(tmp_path):
    click = pa.array([1.0, 1.0])
    for kind in (pa.null(), pa.list_(pa.null())):
        wanted = [name for name in FEATURES if pa.types.is_null(kind) or hasattr(SCHEMA[name], "separator")]
        schema = dataclasses.replace(SCHEMA, columns=tuple(c for c in SCHEMA.columns if c.name in ["click", "user", *wanted]))
        table = pa.table({"click": click, "user": pa.nulls(2)} | {name: pa.nulls(2, kind) for name in wanted})
        pq.write_table(table, tmp_path / "rows.parquet")
        assert read_one(tmp_path / "rows.parquet", schema) == {c.name: AS_MISSING[c.name] for c in schema.features}


AS_MISSING = {
    "x": [2.0, 2.0],
    "xs": [[1.0, 2.0], [1.0, 2.0]],
    "user": [b"?", b"?"],
    "slot": [4, 4],
    "city": [b"", b""],
    "tags": [[], []],
    "codes": [[], []],
    "past": [[], []],
}


def read_one(path, schema=SCHEMA) -> dict:
    with data.explained():
        [(features, _)] = data.read(path, schema, batch_size=100)
    ragged = (name for name, values in features.items() if isinstance(values, tf.RaggedTensor))
    lists = {name: features[name].to_list() for name in ragged}
    return {name: lists.get(name) or values.numpy().tolist() for name, values in features.items()}
