"""Tables of one's own: written, split, and refused in one sentence that says column and row."""

import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ctrlab import data
from ctrlab.errors import BadData, BadSchema, CtrlabError
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema

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
    "NaN in Arrow": (
        pa.table({"x": [1.0, float("nan"), 2, 3, 4]}),
        "'x' must hold finite numbers.*; row 1, counted from 0, has nan",
    ),
    "an infinite number": ({"x": [1, 2, 3, 4, -np.inf]}, "'x' .*; row 4, counted from 0, has -inf"),
    "a number above float32": ({"x": [1, 2, 3, 1e300, 0]}, "'x' .*; row 3, counted from 0, has 1e[+]300"),
    "NaN in a list": (
        pa.table({"xs": [[1.0], [], [2.0, np.nan], [4.0], []]}),
        r"'xs' .*; row 2, counted from 0, has \[2.0, nan\]",
    ),
    "an infinite number in a list": ({"xs": [[], [], [], [], [1.0, np.inf]]}, "'xs' .*; row 4, counted from 0, has"),
    "another label": (
        {"click": [0, 1, 2, 0, 1]},
        r"'click' must be 0 or 1 .*Label\('click', soft=True\).*; row 2, counted from 0, has 2",
    ),
    "a label that is NaN": (
        pa.table({"click": [0.0, 1, 1, 0, float("nan")]}),
        "'click' must be 0 or 1 .*; row 4, counted from 0, has nan",
    ),
    "a soft label above 1": ({"share": [0, 0, 0, 1.5, 0]}, r"'share' must lie in \[0, 1\]; row 3, counted from 0, has 1.5"),
    "a soft label that is NaN": (
        pa.table({"share": [0.0, float("nan"), 1, 0, 0]}),
        r"'share' must lie in .*; row 1, counted from 0, has nan",
    ),
    "a label that is missing": ({"click": [0, None, 1, 1, 0]}, "'click' must not be empty; 1 rows"),
    "a number among words": (
        {"user": [1.5, 2, 3, 4, 5]},
        "'user' must be words or whole numbers; it is double, and has 1.5: make text of it",
    ),
    "true among words": (
        {"user": [True, False, True, True, False]},
        "'user' of own must be words or whole numbers; it is bool: make text of it",
    ),
    "days among words": (
        {"user": pd.date_range("2026-01-01", periods=5).date},
        r"'user' of own must be words or whole numbers; it is date32\[day\]",
    ),
    "a whole number that is none of 64 bits": ({"user": [1e300, 2, 3, 4, 5]}, r"'user' must be .*, and has 1e\+300"),
    "halves in a list of words": ({"tags": [[0.5], [], [], [], []]}, "'tags' must be list.*, and has 0.5: make such lists"),
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


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.int32(), pa.decimal128(20, 0)])
@pytest.mark.parametrize("format", data.FORMATS)
def test_whole_numbers_of_any_size_are_rounded_as_floats_are(tmp_path, format, kind):
    large = [2**24 + 1, 2**24 + 3, 2_000_000_000, 0, 5]
    table = pa.Table.from_pandas(frame())
    for name, values, type in ("x", large, kind), ("xs", [[large[0], v] for v in large], pa.list_(kind)):
        table = table.set_column(table.column_names.index(name), name, pa.array(values).cast(type))
    path = tmp_path / f"rows{data.FORMATS[format][0]}"
    data.write(table, SCHEMA, path, progress=False)
    features, _ = read_one(path)
    assert features["x"].numpy().tolist() == np.array(large, np.float32).tolist()
    assert features["xs"].to_list() == [np.array([large[0], v], np.float32).tolist() for v in large]


def test_what_is_missing_among_the_words_of_a_dictionary_is_missing(tmp_path):
    schema = Schema("ids", (Label("click"), Categorical("user", default="?"), Numeric("x", default=7.0)))
    words = pa.DictionaryArray.from_arrays([0, 1, None], ["a", None])
    numbers = pa.DictionaryArray.from_arrays([0, 1, None], [3.0, None])
    table = pa.table({"click": [0, 1, 1], "user": words, "x": numbers})
    for format in data.FORMATS:
        data.write(table, schema, tmp_path / "rows", format, progress=False)
        [(features, _)] = data.read(tmp_path / "rows", schema, batch_size=3, format=format)
        assert features["user"].numpy().tolist() == [b"a", b"?", b"?"] and features["x"].numpy().tolist() == [3, 7, 7]
    with pytest.raises(BadData, match="'click' must not be empty; 2 rows"):
        data.write(table.set_column(0, "click", numbers), schema, tmp_path / "rows", "csv", progress=False)


def test_a_link_stays_and_leads_to_what_was_written(tmp_path):
    place, link = tmp_path / "place.parquet", tmp_path / "folder" / "link.parquet"
    link.parent.mkdir()
    link.symlink_to("../place.parquet")
    for _ in range(2):
        assert data.write(frame(), SCHEMA, link, progress=False) == ROWS
        assert link.is_symlink() and not place.is_symlink() and len(read_one(place)[1]) == ROWS
    assert [path.name for path in link.parent.iterdir()] == ["link.parquet"] and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("format", data.FORMATS)
def test_a_pipe_is_not_replaced(tmp_path, format):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(CtrlabError, match=r"replaces a file; .*another path"):
            data.write(frame(), SCHEMA, path, format, progress=False)
    assert pipe.is_fifo() and link.is_symlink() and len(list(tmp_path.iterdir())) == 2


ZIPS = {"one.csv": ["01000", "20001", "7"], "other.csv": ["01000", "x", "7"]}
LONG = [str(2**53 + 1 + i) for i in range(5)] + ["1e3"]


def test_a_word_of_a_text_file_is_the_text_that_stands_there(tmp_path):
    schema = Schema("flat", (Label("click"), Categorical("zip"), Categorical("slot", buckets=9, encoding="identity")))
    for name, zips in (ZIPS | {"long.csv": LONG, "days.csv": ["2026-01-01", "true", "1.50"]}).items():
        rows = "".join(f"{i % 2},{word},{i}\n" for i, word in enumerate(zips))
        (tmp_path / name).write_text("click,zip,slot\n" + rows)
        data.write(tmp_path / name, schema, tmp_path / "rows.parquet", progress=False)
        features, _ = read_one(tmp_path / "rows.parquet", schema)
        assert features["zip"].numpy().astype(str).tolist() == zips and features["slot"].numpy().tolist() == [*range(len(zips))]


WORDS = {
    "of floats": (["438.0", "", "7.0", "-5.0"], ["438", "", "7", "-5"]),
    "of whole numbers": (["438", "NaN", " 7", "-5"], ["438", "", "7", "-5"]),
    "of codes": (["1e3", "1000", "01", "7"], ["1e3", "1000", "01", "7"]),
    "of codes without zeros": (["1e3", "1000", "12", "7"], ["1e3", "1000", "12", "7"]),
    "of versions": (["14.0", "14.1.2", "NA", "7.5"], ["14", "14.1.2", "NA", "7.5"]),
    "none": (["", "", "NaN", ""], [""] * 4),
}


@pytest.mark.parametrize(("texts", "words"), WORDS.values(), ids=WORDS)
def test_a_word_is_the_same_with_a_schema_and_without(tmp_path, texts, words):
    schema = Schema("flat", (Label("click"), Categorical("user")))
    (tmp_path / "rows.csv").write_text("click,user\n" + "".join(f"{i % 2},{text}\n" for i, text in enumerate(texts)))
    for source in (tmp_path / "rows.csv", data.table(tmp_path / "rows.csv")):
        data.write(source, schema, tmp_path / "rows.parquet", progress=False)
        assert read_one(tmp_path / "rows.parquet", schema)[0]["user"].numpy().astype(str).tolist() == words


def test_a_text_file_without_a_schema_keeps_all_digits(tmp_path):
    columns = {
        "zip": ["01000", "7", "20001"],
        "hash": [str(2**64 - 1), "1", ""],
        "mixed": [*LONG[:2], "1e3"],
        "count": [str(2**62 + 1), "-5", "0"],
        "price": ["0.50", "12345678901234567890.5", "NaN"],
        "age": ["-5", "0", " 7"],
    }
    (tmp_path / "rows.csv").write_text("\n".join(",".join(row) for row in [[*columns], *zip(*columns.values())]) + "\n")
    table = data.table(tmp_path / "rows.csv")
    assert table["zip"].to_pylist() == columns["zip"] and table["hash"].to_pylist() == [*columns["hash"][:2], None]
    assert table["mixed"].to_pylist() == columns["mixed"] and table["count"].to_pylist() == [2**62 + 1, -5, 0]
    assert table["price"].to_pylist() == [0.5, 12345678901234567890.5, None]
    assert list(map(str, table.schema.types)) == ["string", "string", "string", "int64", "double", "int64"]


def test_line_ends_in_quotes_are_part_of_a_word(tmp_path):
    rows = 50_000
    text = "".join(f'{i % 2},"a\nline and another {i}, of {"more " * 5}"\n' for i in range(rows))
    (tmp_path / "rows.csv").write_text("click,word\n" + text)
    table = data.table(tmp_path / "rows.csv")
    assert len(table) == rows and table["word"][rows - 1].as_py().startswith(f"a\nline and another {rows - 1}, of")


def test_what_a_text_file_can_not_be_is_said_with_its_cure(tmp_path):
    rows = "clicked{0}st\u00e4dte\n0{0}K\u00f6ln\n1{0}Rom\n"
    plain = rows.replace("\u00e4", "a")
    files = {
        "semicolons.csv": (rows.format(";").encode(), r"divided by commas, and its first line has semicolons: .*sep=';'"),
        "tabs.csv": (rows.format("\t").encode(), r"has tabs: .*sep='\\t'"),
        "commas.tsv": (rows.format(",").encode(), r"divided by tabs, and its first line has commas"),
        "latin.csv": (rows.format(",").encode("latin-1"), "must be UTF-8, and it has other bytes in its first line: save it as"),
        "column.csv": (plain.format(",").encode("latin-1"), "must be UTF-8, and it has other bytes in column 'stadte'"),
        "utf16.csv": (rows.format(",").encode("utf-16"), "must be UTF-8, and it has UTF-16"),
    }
    for name, (content, said) in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadData, match=said) as caught:
            data.table(tmp_path / name)
        assert len(str(caught.value).splitlines()) == 1 and str(tmp_path / name) in str(caught.value)
    schema = Schema("flat", (Label("clicked"), Categorical("stadte")))
    with pytest.raises(BadData, match=r"UTF-8.* other bytes in column 'stadte'"):
        data.write(tmp_path / "column.csv", schema, tmp_path / "rows.parquet", progress=False)


def test_a_parquet_file_that_is_replaced_meanwhile_is_read_whole(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    path, opened = tmp_path / "rows.parquet", []
    pq.write_table(pa.table({"a": [1, 2]}), path)
    opens = pq.ParquetFile.__init__

    def then_replaced(self, *arguments, **options):
        opens(self, *arguments, **options)
        opened.append(path)
        pq.write_table(pa.table({"b": ["x"] * 1000}), tmp_path / "new")
        (tmp_path / "new").replace(path)

    monkeypatch.setattr(pq.ParquetFile, "__init__", then_replaced)
    assert data.table(path).to_pydict() == {"a": [1, 2]} and len(opened) == 1


def test_rows_are_counted_over_all_tables(tmp_path):
    many = pa.table({"click": np.zeros(70_000), "x": np.r_[np.zeros(69_999), np.inf]})
    schema = Schema("flat", (Label("click"), Numeric("x")))
    with pytest.raises(BadData, match="row 69999, counted from 0, has inf"):
        data.write(many, schema, tmp_path / "rows.parquet", progress=False)
    with pytest.raises(BadData, match="row 69999, counted from 0, has inf"):
        data.write([many.slice(0, 10), many.slice(10)], schema, tmp_path / "rows.parquet", progress=False)


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(BadData, match=r"no column 'user', .*has click, share"):
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


def test_a_split_by_text_of_any_type_of_arrow():
    times = pa.array(["2", "9", "11", "10"], pa.string_view())
    lists = pa.array([["b"], None, [], ["a", "b"]], pa.list_(pa.string_view()))
    rows = data.split(pa.table({"time": times, "list": lists}), 0.25, by="time")[1].to_pylist()
    assert rows == [{"time": "11", "list": []}]


@pytest.mark.parametrize("latest", ["2019-11-10", "2019-11-09 17", "2019-11-09T17:05", "2019-11-09 17:05:00.5"])
def test_a_split_by_text_knows_forms_of_time(latest):
    times = [latest, "2019-11-09T16:59:59", "2019-11-09", "2019-11-09 16:59:59.9"]
    assert data.split({"time": times}, 0.25, by="time")[1]["time"].to_pylist() == [latest]


def test_a_split_by_text_knows_zones():
    times = ["2019-11-09T12:00:00+02:00", "2019-11-09T11:00:00Z", "2019-11-09T11:30:00+01:00", "2019-11-09T09:00:00-01:00"]
    assert data.split({"time": times}, 0.25, by="time")[1]["time"].to_pylist() == [times[1]]


@pytest.mark.parametrize(
    "times",
    [
        ["9/11/2019", "10/11/2019", "11/11/2019"],
        ["b", "a", "c"],
        ["2019-11-09", "2019-11-10Z", "1"],
        ["01122026", "02012026", "1"],
        ["1e3", "1", "2"],
    ],
)
def test_a_split_by_text_without_an_order_is_refused(times):
    with pytest.raises(BadData, match=r"column 'time' of .* begins with .*: make times"):
        data.split({"time": times}, 0.34, by="time")


def test_a_split_by_text_of_large_numbers_and_of_nanoseconds_tears_none():
    nanoseconds = [f"2019-11-09T01:00:00.00000000{n}" for n in (3, 2, 1)]
    for times in (["18446744073709551615", "18446744073709551614", "-1", "2.5"], [*nanoseconds, "2018-01-01"]):
        assert data.split({"time": times}, 0.25, by="time")[1]["time"].to_pylist() == times[:1]


@pytest.mark.parametrize("column", [pa.array([b"8", b"9", b"10"]), pa.array([[1], [2], [3]])])
def test_a_split_by_what_has_no_order_is_refused(column):
    with pytest.raises(BadData, match="A split is by times, numbers or text; column 'time' of the table is"):
        data.split(pa.table({"time": column}), 0.3, by="time")


def test_the_seed_of_a_split_is_a_whole_number():
    for seed in (-1, 0.5, "x"):
        with pytest.raises(CtrlabError, match="The seed of a split is a whole number"):
            data.split({"x": [1, 2, 3]}, 0.3, seed=seed)


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


def test_what_is_no_schema(tmp_path):
    for schema in (None, "criteo", {"x": 1}):
        with pytest.raises(BadSchema, match=r"received .*: .*Schema[.]infer"):
            data.write({"x": [1.0]}, schema, tmp_path / "a.csv")
        with pytest.raises(BadSchema, match=r"those of a Schema; received"):
            data.read("a.csv", schema, batch_size=1)


def test_a_file_without_an_ending_is_given_one():
    with pytest.raises(BadData, match=r"these endings[.]$"):
        data.write({"x": [1.0]}, Schema("s", (Label("x"),)), "a")


def test_splits_that_make_no_sense():
    table = pa.table({"time": [1, 2, 3, 4], "same": [1, 1, 1, 1], "holes": [1, None, 2, 3], "lists": [[1]] * 4})
    for fraction in (0, 1, -0.2, 1.5, float("nan"), "a", None):
        with pytest.raises(CtrlabError, match="above 0 and below 1"):
            data.split(table, fraction)
    for rows, fraction in ((4, 0.01), (4, 0.99), (0, 0.5), (1, 0.5)):
        with pytest.raises(BadData, match="Both parts of a split have rows"):
            data.split(table.slice(0, rows), fraction)
    for by, said in (("same", "none is left"), ("holes", "lacks some"), ("lists", "is list"), ("tim", "Did you mean 'time'")):
        with pytest.raises(CtrlabError, match=said):
            data.split(table, 0.5, by=by)
