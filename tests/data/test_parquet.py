"""The Parquet reader's op: any table, cut anywhere, comes out as it went in; memory is lent; what is wrong is said."""

import gc
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import _native, data
from ctrlab.errors import BadData, NativeLibraryError
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence, entry_dtype

SCHEMA = Schema(
    "any",
    (
        Label("z"),
        Numeric("x", default=-1.5),
        Categorical("id", buckets=1 << 20, encoded=True),
        Categorical("wide", encoding="identity", buckets=1 << 40, default="7"),
        Categorical("word", default="?"),
        MultiHot("bag", separator="|"),
        Sequence("past", buckets=1 << 20, encoded=True),
        NumericList("hours", default="1;2.5"),
        Label("a"),
    ),
)
TYPES = {
    "z": pa.float32(),
    "x": pa.float32(),
    "id": pa.int32(),
    "wide": pa.int64(),
    "word": pa.string(),
    "bag": pa.list_(pa.string()),
    "past": pa.list_(pa.int32()),
    "hours": pa.list_(pa.float32()),
    "a": pa.float32(),
}
number = st.floats(width=32, allow_nan=False, allow_infinity=False)
label = st.sampled_from([0.0, 1.0])
id32 = st.integers(0, (1 << 20) - 1)
word = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ROW = st.fixed_dictionaries(
    {
        "z": label,
        "x": st.none() | number,
        "id": id32,
        "wide": st.none() | st.integers(0, (1 << 40) - 1),
        "word": st.none() | word,
        "bag": st.none() | st.lists(word.filter(lambda text: text and "|" not in text), max_size=4),
        "past": st.none() | st.lists(id32, max_size=20),
        "hours": st.none() | st.lists(number, max_size=3),
        "a": label,
    }
)
MISSING = {"x": -1.5, "wide": 7, "word": "?", "bag": [], "past": [], "hours": [1, 2.5]}


def wanted(name: str, value):
    """The definition: what a reader makes of a value."""
    value = MISSING[name] if value is None or (name in ("word", "hours") and not value) else value
    return (
        [wanted("", entry) for entry in value] if isinstance(value, list) else value.encode() if isinstance(value, str) else value
    )


def write(path, rows: list[dict], group: int, compression: str, dictionary: bool) -> None:
    table = pa.table({name: pa.array([row[name] for row in rows], type) for name, type in TYPES.items()})
    pq.write_table(table, path, row_group_size=group, compression=compression, use_dictionary=dictionary)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(ROW, min_size=1, max_size=40),
    cut=st.integers(0, 40),
    groups=st.tuples(st.integers(1, 45), st.integers(1, 45)),
    size=st.integers(1, 45),
    drop=st.booleans(),
    compression=st.sampled_from(["none", "lz4", "zstd"]),
    dictionary=st.booleans(),
    epochs=st.integers(1, 3),
)
def test_any_table_comes_out_as_it_went_in(tmp_path_factory, rows, cut, groups, size, drop, compression, dictionary, epochs):
    folder = tmp_path_factory.mktemp("rows")
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    for i, part in enumerate(parts):
        write(folder / f"{i}.parquet", part, groups[i], compression, dictionary)
    dataset = data.read(folder, SCHEMA, batch_size=size, drop_remainder=drop, epochs=epochs)
    batches = list(dataset)
    every = rows * epochs
    sizes = [min(size, len(every) - start) for start in range(0, len(every), size)]
    assert [len(labels) for _, labels in batches] == [n for n in sizes if n == size or not drop]
    assert len(dataset) == len(batches)
    at = 0
    for features, labels in batches:
        assert labels.numpy().tolist() == [[row["z"], row["a"]] for row in every[at : at + len(labels)]]
        for column in SCHEMA.features:
            values = features[column.name]
            assert values.dtype == entry_dtype(column)
            received = values.to_list() if isinstance(values, tf.RaggedTensor) else values.numpy().tolist()
            assert received == [wanted(column.name, row[column.name]) for row in every[at : at + len(labels)]], column.name
            if isinstance(values, tf.RaggedTensor):
                assert values.row_splits.dtype == tf.int64 and values.row_splits[0] == 0
        at += len(labels)


PLAIN = Schema("plain", (Label("y"), Categorical("id", buckets=1 << 31, encoded=True)))


def plain(rows: int) -> pa.Table:
    return pa.table({"y": pa.array(np.arange(rows) % 2, pa.float32()), "id": pa.array(np.arange(rows), pa.int32())})


def test_whole_row_groups_are_lent_and_odd_pieces_copied(tmp_path):
    """Batches that begin at a multiple of 64 bytes lie where Arrow decoded them: as far apart there as in the file."""
    path = tmp_path / "rows.parquet"
    pq.write_table(plain(4_096), path, row_group_size=2_048)

    batches = list(data.read(path, PLAIN, batch_size=512))
    held = [np.asarray(memoryview(features["id"])) for features, _ in batches]
    del batches
    gc.collect()
    steps = np.diff([array.ctypes.data for array in held])
    assert steps[[0, 1, 2, 4, 5, 6]].tolist() == [4 * 512] * 6
    assert np.concatenate(held).tolist() == list(range(4_096)), "and they stay while they are used"
    odd = list(data.read(path, PLAIN, batch_size=500))
    assert np.concatenate([tf.square(features["id"]).numpy() for features, _ in odd]).tolist() == [
        np.int32(i * i) for i in range(4_096)
    ], "TensorFlow's kernels take what does not lie well, for it was copied"


def test_lent_memory_is_never_written_to(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(plain(1_024), path)

    @tf.function
    def changed(ids):
        return tf.tensor_scatter_nd_update(ids + 1, [[0]], [-1])

    batches = list(data.read(path, PLAIN, batch_size=512))
    for features, _ in batches:
        changed(features["id"])
    assert np.concatenate([features["id"].numpy() for features, _ in batches]).tolist() == list(range(1_024))


def test_row_groups_larger_than_a_block(tmp_path):
    """Files of other writers have a million rows in a group; they are decoded some thousand at a time."""
    path = tmp_path / "rows.parquet"
    rows = 200_001
    pq.write_table(plain(rows), path, row_group_size=150_000)
    for options in ({}, {"start": 140}, {"shard": (2, 3)}, {"shuffle": 5_000, "seed": 1}):
        batches = data.read(path, PLAIN, batch_size=1_000, **options)
        ids = np.concatenate([features["id"].numpy() for features, _ in batches])
        index, count = options.get("shard", (0, 1))
        expected = np.arange(index, rows, count)[1_000 * options.get("start", 0) :]
        assert (np.sort(ids) if "shuffle" in options else ids).tolist() == expected.tolist()


@pytest.mark.parametrize("start", [1, 3, 7, 12, 40])
def test_a_shuffled_reader_goes_on_over_epochs(tmp_path, start):
    path = tmp_path / "rows.parquet"
    pq.write_table(plain(60), path, row_group_size=7)

    def ids(**options):
        read = data.read(path, PLAIN, batch_size=5, shuffle=20, seed=4, epochs=4, shard=(1, 2), **options)
        return [features["id"].numpy().tolist() for features, _ in read]

    assert ids(start=start) == ids()[start:]


def test_a_file_that_is_damaged_in_the_middle_is_named_once(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(plain(10_000), path, row_group_size=1_000, compression="zstd", write_page_checksum=True)
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(size // 2)
        file.write(b"\xa5" * 64)
    reader = iter(data.read(path, PLAIN, batch_size=100))
    with pytest.raises(BadData, match=r"rows\.parquet is no whole Parquet file \(damaged") as caught, data.explained():
        for _ in reader:
            pass
    assert "\n" not in str(caught.value)
    assert next(reader, None) is None, "after its error a reader is at its end"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pa.array([[1, None]], pa.list_(pa.int32())), "has a list with an entry that is missing"),
        (pa.array([[1 << 40]], pa.list_(pa.int64())), r"must lie in \[0, 9\); row 0, counted from 0, has 1099511627776"),
    ],
    ids=["missing entry", "too large"],
)
def test_lists_that_do_not_fit(tmp_path, values, words):
    schema = Schema("lists", (Label("y"), Sequence("past", buckets=9, encoded=True)))
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"y": [1.0], "past": values}), path)
    with pytest.raises(BadData, match=words) as caught, data.explained():
        list(data.read(path, schema, batch_size=1))
    assert str(path) in str(caught.value) and "'past'" in str(caught.value)


def test_a_file_that_is_gone_is_named(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(plain(10), path)
    dataset = data.read(path, PLAIN, batch_size=5)
    path.unlink()
    with pytest.raises(BadData, match=r"rows\.parquet"), data.explained():
        list(dataset)


def test_the_op_refuses_what_python_never_asks_for(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(plain(10), path)
    good = {
        "order": [],
        "files": [str(path)],
        "columns": ["id", "y"],
        "kinds": ["int32", "float"],
        "forms": ["one", "one"],
        "fallbacks": ["", ""],
        "separators": ["", ""],
        "required": [True, True],
        "rules": ["any", "binary"],
        "musts": ["", "be 0 or 1"],
        "labels": 1,
        "batch_size": 5,
        "drop_remainder": False,
        "shard_index": 0,
        "shard_count": 1,
        "epochs": 1,
        "start": 0,
        "output_types": [tf.int32, tf.float32],
        "output_shapes": [[None], [None, 1]],
    }
    structure = (tf.TensorSpec([None], tf.int32), tf.TensorSpec([None, 1], tf.float32))

    def read(**bad):
        variant = _native.reader_library().ctrlab_parquet_dataset(**(good | bad))
        return list(tf.data.experimental.from_variant(variant, structure))

    assert len(read()) == 2

    def order(*batches):
        return [tf.data.experimental.to_variant(tf.data.Dataset.from_tensor_slices(np.array(batches, np.int64)))]

    assert read(order=order([9, 0], [4, 5]))[0][0].numpy().tolist() == [9, 0]
    for bad, words in [
        ({"order": order([0, 10])}, r"must be in \[0, 10\); received 10"),
        ({"order": order([0, -1])}, "received -1"),
        ({"order": order(1, 2)}, "one vector"),
        ({"order": order([1]) * 2}, "one order at most"),
        ({"kinds": ["int32"]}, "columns must be described"),
        ({"kinds": ["int32", "text"]}, "Labels must be float"),
        ({"rules": ["any"]}, "columns must be described"),
        ({"musts": [""]}, "columns must be described"),
        ({"labels": 3}, "3 labels in 2 columns"),
        ({"shard_index": 1}, "below 1; received 1"),
        ({"output_types": [tf.int64, tf.float32]}, "gives int32"),
        ({"columns": ["id", "no"]}, "no column 'no'"),
        ({"fallbacks": ["x", ""], "required": [False, True]}, "received 'x'"),
        ({"files": []}, "must have rows"),
        ({"files": [str(tmp_path / "none")]}, "none"),
    ]:
        with pytest.raises(tf.errors.OpError, match=words):
            read(**bad)


@pytest.mark.parametrize("lists", ["ragged", "text"])
@pytest.mark.parametrize("type", [pa.float64(), pa.float32(), pa.float16()])
def test_a_bad_number_is_found_wherever_it_lies(tmp_path, type, lists):
    """A bad number is placed in any row group and block of a file, in numbers of any width, alone or in a list, beside missing
    ones.
    """
    schema, rows, path = Schema("odd", (Label("y"), Numeric("x"), NumericList("hours"))), 70_000, tmp_path / "rows.parquet"
    for name in ("x", "hours"):
        for row in (0, 7, 65_535, 65_536, 69_999):
            x, lengths, hours = np.ones(rows), np.arange(rows) % 3, np.ones(2 * rows)
            at = row if name == "x" else lengths[:row].sum()
            if name == "hours" and lengths[row] == 0:
                continue
            (x if name == "x" else hours)[at] = np.nan
            offsets = pa.array(np.r_[0, np.cumsum(lengths)], pa.int32())
            lists_of = pa.ListArray.from_arrays(offsets, pa.array(hours[: lengths.sum()].astype(type.to_pandas_dtype()), type))
            numbers = pa.array(x.astype(type.to_pandas_dtype()), type, mask=np.arange(rows) % 5 == (row + 1) % 5)
            pq.write_table(pa.table({"y": np.zeros(rows), "x": numbers, "hours": lists_of}), path, row_group_size=66_000)
            said = f"rows.parquet: column '{name}' must hold finite .*; row {row}, counted from 0, has nan"
            with pytest.raises(BadData, match=said), data.explained():
                list(data.read([path], schema, batch_size=16_384, lists=lists))


def test_numbers_among_words_are_read_as_their_text(tmp_path):
    schema = Schema("ids", (Label("y"), Categorical("id", default="?"), MultiHot("ids")))
    for ids, texts in {
        "int64": (pa.array([438, None, -(2**62)]), ["438", "?", str(-(2**62))]),
        "float64": (pa.array([438.0, None, 5.0]), ["438", "?", "5"]),
        "uint8": (pa.array([0, 255, None], pa.uint8()), ["0", "255", "?"]),
        "dictionary": (pa.array([7, 8, 7]).dictionary_encode(), ["7", "8", "7"]),
    }.values():
        table = pa.table({"y": [0.0] * 3, "id": ids, "ids": [[1, 2], [], [2**60]]})
        pq.write_table(table, tmp_path / "rows.parquet")
        [(features, _)] = data.read(tmp_path / "rows.parquet", schema, batch_size=3)
        assert features["id"].numpy().astype(str).tolist() == texts
        assert features["ids"].to_list() == [[b"1", b"2"], [], [b"%d" % 2**60]]
    pq.write_table(pa.table({"y": [0.0], "id": [1.5], "ids": [[1]]}), tmp_path / "rows.parquet")
    with pytest.raises(BadData, match=r"'id' must be int64.*1\.5"), data.explained():
        list(data.read(tmp_path / "rows.parquet", schema, batch_size=3))


def test_a_library_of_another_pyarrow_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(_native, "READER", tmp_path / "none.so")
    with pytest.raises(NativeLibraryError, match=r"none\.so is missing"):
        _native.reader_library.__wrapped__()
