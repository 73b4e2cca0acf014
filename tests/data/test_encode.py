"""Ids made offline are the ids that the models make."""

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import data
from ctrlab.errors import BadData
from ctrlab.models import blocks
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence

SCHEMA = Schema(
    "test",
    (
        Label("click"),
        Categorical("user", buckets=1_000, default="?"),
        Categorical("city", buckets=7),
        Categorical("kind", encoding="vocabulary", vocabulary=("a", "b", "")),
        Categorical("slot", encoding="identity", buckets=100, default="7"),
        Numeric("price", default=1.5),
        MultiHot("tags", buckets=50, separator="|"),
        MultiHot("kinds", encoding="vocabulary", vocabulary=("a", "b", "c")),
        Sequence("items", buckets=1_000, max_length=3),
        MultiHot("codes", encoding="identity", buckets=100),
        NumericList("hours", default="1;3"),
    ),
)
LETTERS = st.characters(codec="utf-8", exclude_characters=",;|\n\r\x00")
ENTRY = st.one_of(st.sampled_from(["a", "b", "c", "?", "日本"]), st.text(LETTERS, min_size=1, max_size=30))
WORD = st.one_of(st.none(), st.just(""), ENTRY)


def lists(entry):
    return st.one_of(st.none(), st.lists(entry, max_size=6))


ROW = {
    "click": st.sampled_from([0.0, 1.0]),
    "user": WORD,
    "city": WORD,
    "kind": WORD,
    "slot": st.one_of(st.none(), st.integers(0, 99)),
    "price": st.one_of(st.none(), st.floats(-10, 10, width=32)),
    "tags": lists(ENTRY),
    "kinds": lists(ENTRY),
    "items": lists(ENTRY),
    "codes": lists(st.integers(0, 99)),
    "hours": lists(st.floats(0, 10, width=32)),
}
ROWS = st.lists(st.fixed_dictionaries(ROW), min_size=1, max_size=12)
TYPES = {Label: pa.float32(), Numeric: pa.float32(), NumericList: pa.list_(pa.float32())}


def table_of(rows) -> pa.Table:
    def type_of(column):
        entry = pa.int64() if getattr(column, "encoding", "") == "identity" else pa.string()
        return TYPES.get(type(column)) or (entry if isinstance(column, Categorical) else pa.list_(entry))

    return pa.table({c.name: pa.array([row[c.name] for row in rows], type_of(c)) for c in SCHEMA.columns})


def ids_and_numbers(features) -> dict:
    encoder = blocks.Encoder(SCHEMA)
    found = {name: ids.to_list() if isinstance(ids, tf.RaggedTensor) else ids for name, ids in encoder.ids(features).items()}
    return {k: np.asarray(v).tolist() if not isinstance(v, list) else v for k, v in found.items()} | {
        "numbers": encoder.numbers(features).numpy().tolist()
    }


def batch_of(table, schema, path, **options):
    data.write([table], schema, path, progress=False)
    [(features, labels)] = data.read(path, schema, batch_size=100, **options)
    return features, labels.numpy().tolist()


@settings(max_examples=12, deadline=None)
@given(rows=ROWS, format=st.sampled_from(list(data.FORMATS)), form=st.sampled_from(["ragged", "text"]))
def test_an_id_is_the_same_id(tmp_path_factory, rows, format, form):
    folder = tmp_path_factory.mktemp("encoded")
    table = table_of(rows)
    words, labels = batch_of(table, SCHEMA, folder / "words.parquet")
    [encoded] = data.encode([table], SCHEMA)
    ids, same_labels = batch_of(encoded, SCHEMA.encoded(), folder / f"ids{data.FORMATS[format][0]}", lists=form)
    assert ids_and_numbers(ids) == ids_and_numbers(words)
    assert labels == same_labels
    assert {ids[c.name].dtype for c in SCHEMA.id_columns} == {tf.int32}


def test_an_encoded_file_says_for_which_tables(tmp_path):
    row = {name: None for name in ROW} | {"click": 0.0}
    path = tmp_path / "ids.parquet"
    data.write(data.encode([table_of([row])], SCHEMA), SCHEMA.encoded(), path, progress=False)
    with pytest.raises(BadData, match="encoded for other tables"):
        data.read(path, SCHEMA.with_buckets(100).encoded(), batch_size=1)
    with pytest.raises(BadData, match=r"ids.parquet holds ids in place of words .*`encoded\(\)`"):
        data.read(path, SCHEMA, batch_size=1)
    with pytest.raises(BadData, match="holds ids in place of words"):  # ids would be hashed as if they were words
        data.write(data.encode([table_of([row])], SCHEMA), SCHEMA, tmp_path / "words.csv", progress=False)
    data.write([table_of([row | {"user": "u"}])], SCHEMA, path, progress=False)
    with pytest.raises(BadData, match=r"'user' .*int32; .*dictionary"):
        data.read(path, SCHEMA.encoded(), batch_size=1)


def test_an_id_outside_of_its_table_is_refused():
    row = {name: None for name in ROW} | {"click": 0.0}
    for column, bad in (("slot", 100), ("slot", -1), ("codes", [5, 100])):
        with pytest.raises(BadData, match=rf"'{column}' must lie in \[0, 100\)"):
            list(data.encode([table_of([row | {column: bad}])], SCHEMA))


def test_a_schema_of_ids_survives_its_config():
    encoded = SCHEMA.encoded()
    assert Schema.from_config(encoded.to_config()) == encoded != SCHEMA
    assert encoded["user"].bits == 32 and SCHEMA["user"].bits is None
    assert Categorical("big", buckets=1 << 40).bits is None
    assert Schema("s", (Categorical("big", buckets=1 << 40),)).encoded()["big"].bits == 64


def test_files_of_the_cache_are_encoded_for_a_model(tmp_path, monkeypatch):
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path))
    schema = data.schema("food_delivery")
    words = data.prepare("food_delivery", profile="tiny", progress=False)
    small = data.prepare_for(schema.with_buckets(100), ["parquet", "encoded"], profile="tiny", progress=False)
    large = data.prepare_for(schema, "encoded", profile="tiny", progress=False)
    assert (small.format, large.format) == ("parquet", "csv") and small.train != large.train
    for files, buckets in ((small, 100), (large, 100_000)):
        assert files.rows == words.rows and files.ceiling == words.ceiling
        encoder = blocks.Encoder(schema.with_buckets(buckets))
        for (ids, labels), (text, same) in zip(files.read_test(512), words.read_test(512), strict=True):
            made, expected = encoder.ids(ids), encoder.ids(text)
            for name, values in expected.items():
                np.testing.assert_array_equal(*(getattr(v, "flat_values", v).numpy() for v in (made[name], values)))
            np.testing.assert_array_equal(labels, same)
