"""Tables of one's own: written, split, and refused in one sentence that says column and row."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ctrlab import data
from ctrlab.errors import BadData, CtrlabError
from ctrlab.features import Categorical, Label, MultiHot, Numeric, NumericList, Schema

SCHEMA = Schema(
    "own", (Label("click"), Label("share", soft=True), Numeric("x"), NumericList("xs"), Categorical("user"), MultiHot("tags"))
)
ROWS = 5


def frame(**columns) -> pd.DataFrame:
    good = {
        "click": [0, 1, 1, 0, 1],
        "share": [0.0, 0.25, 1.0, 0.5, 0.0],
        "x": [1.0, np.nan, 3.0, 4.0, 5.0],
        "xs": [[1.0], [], [2.0, 3.0], [4.0], [5.0]],
        "user": [438, 7, 438, 9, 10],
        "tags": [["a"], ["b", "c"], [], ["d"], ["e"]],
        "more": list("vwxyz"),
    }
    return pd.DataFrame(good | columns)


def read_one(path, schema=SCHEMA) -> tuple[dict, np.ndarray]:
    with data.explained():
        [(features, labels)] = data.read(path, schema, batch_size=100)
    return features, labels.numpy()


@pytest.mark.parametrize("format", data.FORMATS)
def test_one_table_is_written_as_several_are(tmp_path, format):
    arrow = pa.Table.from_pandas(frame())
    sources = [frame(), arrow, arrow.to_reader(), [frame()[:2], frame()[2:]], (f for f in (frame()[:1], arrow.slice(1)))]
    written = set()
    for number, source in enumerate(sources):
        path = tmp_path / f"{number}{data.FORMATS[format][0]}"
        assert data.write(source, SCHEMA, path, progress=False) == ROWS
        features, labels = read_one(path)
        written.add(repr([*(features[name].numpy().tolist() for name in ("x", "user", "tags")), labels.tolist()]))
    assert len(written) == 1
    assert features["user"].numpy().tolist() == [b"438", b"7", b"438", b"9", b"10"]
    assert labels[1].tolist() == [1.0, 0.25]


def test_a_file_is_copied_to_another(tmp_path):
    frame()[["click", "x", "user"]].to_csv(tmp_path / "rows.csv", index=False)
    schema = Schema("flat", (Label("click"), Numeric("x"), Categorical("user")))
    assert data.write(tmp_path / "rows.csv", schema, tmp_path / "rows.parquet", progress=False) == ROWS
    assert read_one(tmp_path / "rows.parquet", schema)[0]["user"].numpy().tolist() == [b"438", b"7", b"438", b"9", b"10"]


@pytest.mark.parametrize(
    ("kind", "values"),
    {
        "int64": pa.array([438, -7, 2**62]),
        "uint64": pa.array([438, 2**64 - 1, 0], pa.uint64()),
        "int8": pa.array([43, -7, None], pa.int8()),
        "float64": pa.array([438.0, None, -7.0]),
        "dictionary": pa.array([438, 7, None]).dictionary_encode(),
        "text": pa.array(["438", None, "-7"], pa.large_string()),
    }.items(),
)
def test_whole_numbers_among_words_are_their_text(tmp_path, kind, values):
    schema = Schema("ids", (Label("click"), Categorical("user", default="?")))
    table = pa.table({"click": [0, 1, 1], "user": values})
    texts = ["?" if v is None else str(int(v)) for v in values.to_pylist()]
    for format in data.FORMATS:
        data.write(table, schema, tmp_path / "rows", format, progress=False)
        [(features, _)] = data.read(tmp_path / "rows", schema, batch_size=3, format=format)
        assert features["user"].numpy().astype(str).tolist() == texts


REFUSED = {
    "NaN in Arrow": (pa.table({"x": [1.0, float("nan"), 2, 3, 4]}), "'x' must hold finite numbers.*; row 1 has nan"),
    "an infinite number": ({"x": [1, 2, 3, 4, -np.inf]}, "'x' .*; row 4 has -inf"),
    "a number above float32": ({"x": [1, 2, 3, 1e300, 0]}, "'x' .*; row 3 has 1e[+]300"),
    "NaN in a list": (pa.table({"xs": [[1.0], [], [2.0, np.nan], [4.0], []]}), r"'xs' .*; row 2 has \[2.0, nan\]"),
    "an infinite number in a list": ({"xs": [[], [], [], [], [1.0, np.inf]]}, "'xs' .*; row 4 has"),
    "another label": ({"click": [0, 1, 2, 0, 1]}, r"'click' must be 0 or 1 .*Label\('click', soft=True\).*; row 2 has 2"),
    "a label that is NaN": (pa.table({"click": [0.0, 1, 1, 0, float("nan")]}), "'click' must be 0 or 1 .*; row 4 has nan"),
    "a soft label above 1": ({"share": [0, 0, 0, 1.5, 0]}, r"'share' must lie in \[0, 1\]; row 3 has 1.5"),
    "a soft label that is NaN": (pa.table({"share": [0.0, float("nan"), 1, 0, 0]}), r"'share' must lie in .*; row 1 has nan"),
    "a label that is missing": ({"click": [0, None, 1, 1, 0]}, "'click' must not be empty; 1 rows"),
    "a number among words": ({"user": [1.5, 2, 3, 4, 5]}, "'user' must be dictionary.*1.5"),
    "true among words": ({"user": [True, False, True, True, False]}, "'user' of own must be dictionary.* it is bool"),
    "a separator in an entry": ({"tags": [["a"], ["b;c"], [], [], []]}, "'tags' can't hold its separator ';'; found 'b;c'"),
}


@pytest.mark.parametrize("format", data.FORMATS)
@pytest.mark.parametrize(("columns", "said"), REFUSED.values(), ids=REFUSED)
def test_what_write_refuses(tmp_path, columns, said, format):
    table = pa.Table.from_pandas(frame() if isinstance(columns, pa.Table) else frame(**columns))
    if isinstance(columns, pa.Table):
        [name] = columns.column_names
        table = table.set_column(table.column_names.index(name), name, columns[name])
    with pytest.raises(BadData, match=said) as caught:
        data.write(table, SCHEMA, tmp_path / "rows", format, progress=False)
    assert "rows" in str(caught.value) and len(str(caught.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_rows_are_counted_over_all_tables(tmp_path):
    many = pa.table({"click": np.zeros(70_000), "x": np.r_[np.zeros(69_999), np.inf]})
    schema = Schema("flat", (Label("click"), Numeric("x")))
    with pytest.raises(BadData, match="row 69999 has inf"):
        data.write(many, schema, tmp_path / "rows.parquet", progress=False)
    with pytest.raises(BadData, match="row 69999 has inf"):
        data.write([many.slice(0, 10), many.slice(10)], schema, tmp_path / "rows.parquet", progress=False)


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(BadData, match=r"has no column 'user', which own needs; it has click, share"):
        data.write(frame().drop(columns="user"), SCHEMA, tmp_path / "rows.csv", progress=False)


def test_a_split_at_random():
    table = pa.table({"row": np.arange(1_000)})
    train, test = data.split(table, 0.25, seed=3)
    assert (len(train), len(test)) == (750, 250)
    for part in (train, test):
        assert part["row"].to_pylist() == sorted(part["row"].to_pylist())
    assert sorted(train["row"].to_pylist() + test["row"].to_pylist()) == list(range(1_000))
    assert data.split(table, 0.25, seed=3)[1].equals(test)
    assert not data.split(table, 0.25, seed=4)[1].equals(test)
    assert 200 < np.mean(test["row"].to_numpy()) < 800


@pytest.mark.parametrize("times", ["int", "text", "timestamp", "dictionary"])
def test_a_split_by_time_holds_the_latest_rows_out_and_tears_no_time(times):
    numbers = np.random.default_rng(0).integers(10, 40, 500)
    column = {
        "int": pa.array(numbers),
        "text": pa.array(numbers).cast(pa.string()),
        "timestamp": pa.array(numbers).cast(pa.timestamp("s")),
        "dictionary": pa.array(numbers).cast(pa.string()).dictionary_encode(),
    }[times]
    train, test = data.split(pa.table({"time": column, "number": numbers}), 0.2, by="time")
    first = np.sort(numbers)[400]
    assert train["number"].to_pylist() == [n for n in numbers if n < first]
    assert test["number"].to_pylist() == [n for n in numbers if n >= first]
    assert 100 <= len(test) < 130


def test_splits_that_make_no_sense():
    table = pa.table({"time": [1, 2, 3, 4], "same": [1, 1, 1, 1], "holes": [1, None, 2, 3], "lists": [[1]] * 4})
    for fraction in (0, 1, -0.2, 1.5, float("nan")):
        with pytest.raises(CtrlabError, match="above 0 and below 1"):
            data.split(table, fraction)
    for rows, fraction in ((4, 0.01), (4, 0.99), (0, 0.5), (1, 0.5)):
        with pytest.raises(BadData, match="Both parts of a split have rows"):
            data.split(table.slice(0, rows), fraction)
    for by, said in (("same", "none is left"), ("holes", "lacks some"), ("lists", "is list"), ("tim", "Did you mean 'time'")):
        with pytest.raises(CtrlabError, match=said):
            data.split(table, 0.5, by=by)
