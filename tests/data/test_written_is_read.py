"""Every table, whatever Arrow calls its columns: `write` refuses it and leaves nothing, or any format gives the rows again. A
Parquet file of others with the same columns is read, or refused, alike.
"""

import contextlib
import gzip
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlab import data
from ctrlab.data.follow import Followed
from ctrlab.data.tables import conform
from ctrlab.data.tensors import features_of
from ctrlab.errors import BadData
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, frames

SCHEMA = Schema(
    "own",
    (
        Label("click"),
        Label("share", soft=True),
        Numeric("x", default=2.0),
        NumericList("xs", default="1;2"),
        Categorical("word", default="?"),
        Categorical("slot", encoding="identity", buckets=9, default="4"),
        Categorical("need", encoding="identity", buckets=9),
        MultiHot("tags"),
        MultiHot("codes", encoding="identity", buckets=9),
    ),
)
GOOD = {
    "click": [0, 1],
    "share": [0.5, 1],
    "x": [0.5, 3],
    "xs": [[1.0], []],
    "word": ["a", "b"],
    "slot": [1, 2],
    "need": [1, 2],
    "tags": [["a"], []],
    "codes": [[1], []],
}
PAIRS = {
    "whole numbers": pa.array([3, None]),
    "above float32": pa.array([2**24 + 1, 2**62 + 2**38 + 1]),
    "above int64": pa.array([2**64 - 1, 3], pa.uint64()),
    "negative": pa.array([-1, 1], pa.int8()),
    "fractions": pa.array([0.1, None]),
    "whole floats": pa.array([3.0, None]),
    "halves": pa.array([np.float16(1), np.float16(2)]),
    "too large": pa.array([1e300, 1.0]),
    "nan": pa.array([np.nan, 1.0]),
    "decimals": pa.array([Decimal("16777217.3"), Decimal(3)]),
    "long decimals": pa.array([Decimal("1.0"), None]).cast(pa.decimal256(40, 1)),
    "flags": pa.array([True, None]),
    "text": pa.array(["a", None]),
    "digits": pa.array(["1", "2"], pa.large_string()),
    "separators": pa.array(["a;b", "c"]),
    "empty text": pa.array(["", "c"]),
    "encoded": pa.array(["a", None]).dictionary_encode(),
    "encoded numbers": pa.array([5, 7]).dictionary_encode(),
    "encoded fractions": pa.array([5.5, 7]).dictionary_encode(),
    "bytes": pa.array([b"a", b"b"]),
    "days": pa.array([0, 1], pa.date32()),
    "times": pa.array([0, 1], pa.timestamp("ms")),
    "structs": pa.array([{"a": 1}, None]),
}
OFFSETS = {"alone": [0, 1, 2], "second": [0, 0, 1], "none": [0, 0, 0]}
KINDS = {
    **PAIRS,
    **{f"no {name}": pa.nulls(2, pair.type) for name, pair in PAIRS.items()},
    **{
        f"{name} in lists, {which}": lists.from_arrays(pa.array(offsets, lists_offsets), pair[2 - offsets[-1] :])
        for name, pair in PAIRS.items()
        for which, offsets in OFFSETS.items()
        for lists, lists_offsets in [(pa.ListArray, pa.int32()), (pa.LargeListArray, pa.int64())]
    },
    "no lists of lists": pa.nulls(2, pa.list_(pa.list_(pa.int32()))),
    "lists of lists": pa.array([[[1]], [[2]]]),
    "no pairs": pa.nulls(2, pa.list_(pa.int32(), 2)),
    "no maps": pa.nulls(2, pa.map_(pa.string(), pa.int32())),
}


def rows(features: dict, labels) -> dict:
    values = {name: found.to_list() if hasattr(found, "to_list") else found.numpy().tolist() for name, found in features.items()}
    return values | {"labels": np.asarray(labels).tolist()}


def by_memory(table: pa.Table) -> dict:
    made = conform(frames.table(table), SCHEMA, "The table")
    return rows(features_of(made, SCHEMA), np.stack([made[label.name].to_numpy() for label in SCHEMA.labels], axis=1))


def by_file(path, **options) -> dict:
    with data.explained():
        [(features, labels)] = data.read(path, SCHEMA, batch_size=9, **options)
    return rows(features, labels)


def said_once(call, *arguments, **options) -> str:
    with pytest.raises(BadData) as caught:
        call(*arguments, **options)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([*GOOD]), st.sampled_from([*KINDS]), st.sampled_from([*data.FORMATS]))
def test_what_is_written_is_read(tmp_path_factory, name, kind, format):
    folder = tmp_path_factory.mktemp("written")
    path, table = folder / f"rows{data.FORMATS[format][0]}", pa.table({**GOOD, name: KINDS[kind]})
    try:
        wanted = by_memory(table)
    except BadData:
        wanted = None
    if wanted is None:
        assert path.name in said_once(data.write, table, SCHEMA, path, progress=False) and not [*folder.iterdir()]
    else:
        data.write(table, SCHEMA, path, progress=False)
        assert by_file(path) == wanted
    pq.write_table(table, folder / "others.parquet")
    for lists in ("ragged", "text"):
        if wanted is None:
            assert f"'{name}'" in said_once(by_file, folder / "others.parquet", lists=lists)
        elif lists == "ragged":
            assert by_file(folder / "others.parquet") == wanted
        else:
            by_file(folder / "others.parquet", lists=lists)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from([*GOOD]), st.sampled_from([*KINDS])), min_size=1, max_size=4))
def test_what_is_followed_is_read(tmp_path_factory, caplog, files):
    """Files that do not fit are named once; the rows of the others come."""
    folder = tmp_path_factory.mktemp("followed")
    followed, wanted = Followed(folder, SCHEMA), 0
    caplog.clear()
    for number, (name, kind) in enumerate(files):
        table = pa.table({**GOOD, name: KINDS[kind]})
        pq.write_table(table, folder / f"{number}.parquet")
        with contextlib.suppress(BadData):
            wanted += len(by_memory(table)["labels"])
    pq.write_table(pa.table(GOOD), folder / "good.parquet")
    for _ in range(2):
        followed.look()
        assert sum(len(labels) for _, labels in followed.batches(1)) == wanted + 2
    assert len(caplog.records) == len(files) - wanted / 2


def test_a_file_of_other_tables_is_left_out(tmp_path, caplog):
    schema = Schema("small", (Label("click"), Categorical("word", buckets=9)))
    for number, other in enumerate([schema, Schema("large", (Label("click"), Categorical("word", buckets=50)))]):
        data.write({"click": [0, 1], "word": [1, 2]}, other.encoded(), tmp_path / f"{number}.parquet", progress=False)
    followed = Followed(tmp_path, schema.encoded())
    followed.look()
    assert sum(len(labels) for _, labels in followed.batches(1)) == 2 and "1.parquet was encoded for other tables" in caplog.text


def test_a_column_that_is_there_twice(tmp_path):
    schema = Schema("small", (Label("click"), Numeric("x")))
    twice = pa.table([pa.array([0.0, 1.0])] * 3, ["click", "x", "x"])
    pq.write_table(twice, tmp_path / "rows.parquet")
    for use in (
        lambda: list(data.read(tmp_path / "rows.parquet", schema, batch_size=1)),
        lambda: data.write(twice, schema, tmp_path / "other.parquet"),
        lambda: data.write(tmp_path / "rows.parquet", schema, tmp_path / "other.parquet"),
    ):
        assert "'x' more than once" in said_once(use)


@pytest.mark.parametrize("format", ["tfrecord", "tfrecord.gz", "parquet"])
def test_a_word_with_the_separator_in_it_is_one_word_or_refused(tmp_path, format):
    """Programs of others write such lists; a text of them would have two words."""
    schema, words = (Schema("own", (Label("click"), MultiHot("tags", separator=sign))) for sign in (";", "|"))
    data.write({"click": [0, 1], "tags": [["a"], ["b", "c;d"]]}, words, tmp_path / "rows", format, progress=False)
    for lists in ("text", "ragged"):

        def read(lists=lists):
            with data.explained():
                return list(data.read(tmp_path / "rows", schema, batch_size=2, format=format, lists=lists))

        if lists == "text" or format == "parquet":
            assert "'tags' must have no ';', its separator" in (said := said_once(read)) and "'c;d'" in said
        else:
            assert read()[0][0]["tags"].to_list() == [[b"a"], [b"b", b"c;d"]]


def test_parts_with_a_header_are_refused_with_a_cure_that_helps(tmp_path):
    """Spark writes such folders, with parts that hold no row."""
    schema = Schema("own", (Label("click"), Categorical("word")))
    rows = [b"click,word\n1,a\n", b"click,word\n", b'click,word\n0,"b"\n1,c\n']
    parts = [tmp_path / "parts" / f"part-{number}.csv" for number in range(3)]
    parts[0].parent.mkdir()
    for part, text in zip(parts, rows):
        part.write_bytes(text)
        packed = part.with_name(f"{part.name}.gz")
        packed.write_bytes(gzip.compress(text))
        assert "or convert it with `ctrlab.data.write`" in said_once(data.read, packed, schema, batch_size=2)
        assert data.write(packed, schema, tmp_path / "one.parquet", progress=False) == text.count(b"\n") - 1
        packed.unlink()
        with pytest.raises(BadData, match=r"convert.* with `ctrlab.data.write`"), data.explained():
            list(data.read(part, schema, batch_size=2))
    data.write(parts, schema, tmp_path / "rows.parquet", progress=False)
    [(features, _)] = data.read(tmp_path / "rows.parquet", schema, batch_size=4)
    assert features["word"].numpy().tolist() == [b"a", b"b", b"c"]
