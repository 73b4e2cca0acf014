"""Rows come out the same, in the same order, from every format, and none is lost or doubled."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import data
from ctrlab.errors import BadData, CtrlabError, UnknownName
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence

SCHEMA = Schema(
    "test",
    (
        Label("click"),
        Categorical("user", default="?"),
        Numeric("price", default=1.5),
        Categorical("slot", encoding="identity", buckets=1 << 40),
        Categorical("page", encoding="identity", buckets=100, default="7"),
        MultiHot("tags", separator="|"),
        Sequence("items", separator="\x02"),
        MultiHot("codes", encoding="identity", buckets=1 << 40),
        NumericList("hours", default="-0;3"),
        Label("buy"),
    ),
)
COLUMNS = {  # a column of the table, and what a reader must make of it
    "click": ([0, 1, 1, 0, 1, 0, 1], [0, 1, 1, 0, 1, 0, 1]),
    "user": (["ann", None, "", "日本 é", "bob", "a b", "ann"], ["ann", "?", "?", "日本 é", "bob", "a b", "ann"]),
    "price": ([0.1, None, -3.0, 1e-7, 3.4e38, 16777217.0, 2.5], [0.1, 1.5, -3.0, 1e-7, 3.4e38, 16777216.0, 2.5]),
    "slot": ([0, 1, 2**39 + 1, 3, 4, 5, 6], [0, 1, 2**39 + 1, 3, 4, 5, 6]),
    "page": ([1, None, 3, 4, 5, 6, 99], [1, 7, 3, 4, 5, 6, 99]),
    "tags": ([["a", "b"], [], None, ["é"], ["x"] * 40, ["b"], []], [["a", "b"], [], [], ["é"], ["x"] * 40, ["b"], []]),
    "items": ([None, ["i 1"], ["1", "2", "1"], [], ["5"], [], ["9"]], [[], ["i 1"], ["1", "2", "1"], [], ["5"], [], ["9"]]),
    "codes": ([[2**39], [], [1, 2], None, [5], [0], [3, 3]], [[2**39], [], [1, 2], [], [5], [0], [3, 3]]),
    "hours": ([[1.5], [], [0.1, 2], None, [7] * 9, [1e-9], [3]], [[1.5], [-0.0, 3], [0.1, 2], [-0.0, 3], [7] * 9, [1e-9], [3]]),
    "buy": ([0, 0, 1, 0, 0, 1, 1], [0, 0, 1, 0, 0, 1, 1]),
}
REPEATS = 9
ROWS = 7 * REPEATS
PLAIN = {Label: pa.float32(), Numeric: pa.float32(), NumericList: pa.list_(pa.float32())}
FORMATS = list(data.FORMATS)


def plain_type(column) -> pa.DataType:
    if type(column) in PLAIN:
        return PLAIN[type(column)]
    entry = pa.int64() if column.encoding == "identity" else pa.string()
    return entry if isinstance(column, Categorical) else pa.list_(entry)


def tables():
    table = pa.table({c.name: pa.array(COLUMNS[c.name][0] * REPEATS, plain_type(c)) for c in SCHEMA.columns})
    return [table.slice(0, 20), table.slice(20, 0), table.slice(20)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """{format: two files that hold the rows}."""
    folder = tmp_path_factory.mktemp("rows")
    made = {}
    for format, (ending, *_) in data.FORMATS.items():
        made[format] = [folder / f"{part}{ending}" for part in "ab"]
        for part, path in zip((tables()[:1], tables()[1:]), made[format]):
            data.write(part, SCHEMA, path, progress=False)
    return made


def flat(batch) -> list[np.ndarray]:
    return [tensor.numpy() for tensor in tf.nest.flatten(batch, expand_composites=True)]


@pytest.mark.parametrize("format", FORMATS)
def test_values(files, format):
    [(features, labels)] = data.read(files[format], SCHEMA, batch_size=ROWS)
    assert list(features) == [c.name for c in SCHEMA.features]
    np.testing.assert_array_equal(labels, np.array([COLUMNS["click"][1], COLUMNS["buy"][1]], np.float32).T.tolist() * REPEATS)
    for name, tensor in features.items():
        expected = COLUMNS[name][1] * REPEATS
        received = tensor.to_list() if isinstance(tensor, tf.RaggedTensor) else tensor.numpy().tolist()
        if tensor.dtype == tf.string:
            received = [[e.decode() for e in r] if isinstance(r, list) else r.decode() for r in received]
        elif tensor.dtype == tf.float32:
            expected = [[np.float32(e) for e in r] if isinstance(r, list) else np.float32(r) for r in expected]
        assert received == expected, name
    assert np.signbit(features["hours"][1, 0].numpy()), "the default -0 keeps its sign"
    assert {t.dtype for t in features.values()} == {tf.string, tf.float32, tf.int64}


@pytest.mark.parametrize("format", FORMATS)
def test_lists_as_text(files, format):
    [(features, _)] = data.read(files[format][:1], SCHEMA, batch_size=ROWS, lists="text")
    text = {c.name: [t.decode() for t in features[c.name].numpy()[:4]] for c in SCHEMA.columns if hasattr(c, "separator")}
    assert text == {
        "tags": ["a|b", "", "", "é"],
        "items": ["", "i 1", "1\x022\x021", ""],
        "codes": [str(2**39), "", "1;2", ""],
        "hours": ["1.5", "-0;3", "0.1;2", "-0;3"],
    }


OPTIONS = [
    {},
    {"shuffle": 10, "seed": 3, "epochs": 3},
    {"shuffle": 1000, "seed": 3, "lists": "text", "shard": (1, 4)},
    {"shuffle": 7, "seed": 1, "epochs": 2, "shard": (2, 3), "drop_remainder": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_same_rows_in_the_same_order(files, options):
    batches = {}
    for format in FORMATS:
        dataset = data.read(files[format], SCHEMA, batch_size=5, **options)
        batches[format] = [flat(batch) for _ in range(2) for batch in dataset]  # a second pass has an order of its own
    assert len(batches["csv"]) > 2
    for format in FORMATS[1:]:
        assert len(batches[format]) == len(batches["csv"])
        for received, expected in zip(batches[format], batches["csv"]):
            for a, b in zip(received, expected, strict=True):
                np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("start", [2, 10_000])
def test_a_reader_goes_on_where_another_stopped(files, format, options, start):
    every = [flat(batch) for batch in data.read(files[format], SCHEMA, batch_size=5, **options)]
    rest = [flat(batch) for batch in data.read(files[format], SCHEMA, batch_size=5, start=start, **options)]
    assert len(rest) == len(every[start:])
    for received, expected in zip(rest, every[start:]):
        for a, b in zip(received, expected, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


def test_seed_makes_the_order(files):
    def slots(seed):
        dataset = data.read(files["parquet"], SCHEMA, batch_size=8, shuffle=50, seed=seed, epochs=2)
        return np.concatenate([features["price"].numpy() for features, _ in dataset])

    first = slots(1)
    np.testing.assert_array_equal(first, slots(1))
    assert (first != slots(2)).any()
    assert (first[:ROWS] != first[ROWS:]).any(), "each epoch has its own order"


NUMBERED = Schema("numbered", (Label("odd"), Numeric("row")))


def numbers(rows):
    return pa.table({"odd": pa.array(np.arange(rows) % 2, pa.float32()), "row": pa.array(np.arange(rows), pa.float32())})


@settings(max_examples=12, deadline=None)
@given(
    rows=st.integers(1, 40),
    count=st.integers(1, 5),
    batch_size=st.integers(1, 9),
    shuffle=st.sampled_from([0, 1, 8, 100]),
    format=st.sampled_from(["csv", "parquet"]),
)
def test_no_row_is_lost_or_doubled(tmp_path_factory, rows, count, batch_size, shuffle, format):
    path = tmp_path_factory.mktemp("numbers") / f"rows.{format}"
    data.write([numbers(rows)], NUMBERED, path, progress=False)
    seen = []
    for index in range(count):
        dataset = data.read(path, NUMBERED, batch_size=batch_size, shuffle=shuffle, shard=(index, count))
        sizes, mine = [], []
        for features, labels in dataset:
            sizes.append(len(labels))
            mine += features["row"].numpy().astype(int).tolist()
            assert labels[:, 0].numpy().tolist() == (features["row"].numpy() % 2).tolist()
        assert all(row % count == index for row in mine)
        assert all(size == batch_size for size in sizes[:-1])
        assert shuffle or mine == sorted(mine)
        seen += mine
    assert sorted(seen) == list(range(rows))


def test_tail_row_groups_are_read(tmp_path):
    """Ten groups over four workers: a floor division would leave two unread."""
    for part in range(2):
        pq.write_table(numbers(19), tmp_path / f"{part}.parquet", row_group_size=2)
    shards = [data.read(tmp_path, NUMBERED, batch_size=4, shard=(index, 4)) for index in range(4)]
    rows = [int(row) for shard in shards for features, _ in shard for row in features["row"]]
    assert sorted(rows) == sorted([*range(19), *range(19)])


def test_drop_remainder(files):
    for format in FORMATS:
        dataset = data.read(files[format], SCHEMA, batch_size=10, drop_remainder=True)
        assert [len(labels) for _, labels in dataset] == [10] * (ROWS // 10)
        assert dataset.element_spec[1].shape == [10, 2]
        assert dataset.element_spec[0]["user"].shape == [10]


def test_foreign_parquet(tmp_path):
    """Other writers' types: doubles, plain and large strings, columns in another order, one too many."""
    path = tmp_path / "other.parquet"
    schema = Schema("other", (Label("y"), Categorical("user"), MultiHot("tags"), Numeric("x")))
    pq.write_table(
        pa.table(
            {
                "x": pa.array([1.0, 2.0], pa.float64()),
                "extra": [1, 2],
                "tags": pa.array([["a"], []], pa.large_list(pa.large_string())),
                "user": pa.array(["u", "v"], pa.large_string()),
                "y": pa.array([True, False]),
            }
        ),
        path,
    )
    [(features, labels)] = data.read(path, schema, batch_size=4)
    assert list(features) == ["user", "tags", "x"]
    assert features["tags"].to_list() == [[b"a"], []]
    assert labels.numpy().tolist() == [[1.0], [0.0]]


def test_files_by_folder_format_and_ending(files, tmp_path):
    folder = files["csv"][0].parent
    dataset = data.read(folder, SCHEMA, batch_size=ROWS, format="tfrecord")
    assert sum(len(labels) for _, labels in dataset) == ROWS
    for wrong, words in [
        (folder, "one format"),
        (tmp_path, "holds no file"),
        ([], "no files"),
        (tmp_path / "none.csv", "none.csv"),
    ]:
        with pytest.raises(BadData, match=words):
            data.read(wrong, SCHEMA, batch_size=1)
    with pytest.raises(BadData, match="ends with none of"):
        data.read(__file__, SCHEMA, batch_size=1)
    with pytest.raises(UnknownName, match="parquet"):
        data.read(folder, SCHEMA, batch_size=1, format="parket")


@pytest.mark.parametrize(
    "options",
    [{"shard": (2, 2)}, {"shuffle": -1}, {"epochs": 0}, {"batch_size": 0}, {"lists": "dense"}, {"start": -1}, {"prefetch": 0}],
    ids=str,
)
def test_bad_options(files, options):
    with pytest.raises(CtrlabError):
        data.read(files["csv"], SCHEMA, **({"batch_size": 1} | options))


def test_importing_needs_no_tensorflow():
    code = "import sys, ctrlab.data; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_process_ends_while_threads_still_read(tmp_path):
    """Readers that run ahead are in the middle of a chunk when Python goes down."""
    path = tmp_path / "rows.parquet"
    words = [f"word {i}" for i in range(20_000)]
    schema = Schema("words", (Label("odd"), *(Categorical(f"c{i}") for i in range(8))))
    columns = {"odd": pa.array(np.arange(20_000) % 2, pa.float32())} | {f"c{i}": words for i in range(8)}
    data.write([pa.table(columns)], schema, path, progress=False)
    code = """if True:
        import sys
        from ctrlab import data
        from ctrlab.schema import Categorical, Label, Schema
        schema = Schema("words", (Label("odd"), *(Categorical(f"c{i}") for i in range(8))))
        readers = [iter(data.read(sys.argv[1], schema, batch_size=512, epochs=-1)) for _ in range(4)]
        for reader in readers:
            next(reader)
    """
    assert subprocess.run([sys.executable, "-c", code, path], check=False, timeout=120).returncode == 0
