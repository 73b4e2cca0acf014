"""Text files of other programs: byte-order marks, line ends, quotes, and values that other readers of CSV see in them."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import data
from ctrlab.data import pipeline
from ctrlab.data.convert import convert
from ctrlab.data.labels import read_labels
from ctrlab.data.source import Source
from ctrlab.errors import BadData
from ctrlab.schema import Categorical, Label, Numeric, Schema

MARK = b"\xef\xbb\xbf"
SCHEMA = Schema("own", (Categorical("word"), Numeric("x", default=7.0), Label("click")))
TABLE = "word,x,click\nann,1,1\nbob,2,0\n"


def rows_of(files, schema=SCHEMA, **options) -> list[tuple]:
    with data.explained():
        batches = [*data.read(files, schema, batch_size=3, **options)]
    columns = [np.concatenate([features[c.name] for features, _ in batches]) for c in schema.features]
    return [*zip(*(column.tolist() for column in columns), (int(y) for _, labels in batches for [y] in labels.numpy()))]


@pytest.fixture
def parts(tmp_path):
    """Writes files of the given bytes, and returns their paths."""

    def of(*contents: bytes, ending=".csv"):
        paths = [tmp_path / f"part-{i}{ending}" for i in range(len(contents))]
        for path, content in zip(paths, contents):
            path.write_bytes(content)
        return paths

    return of


@pytest.mark.parametrize("marks", [(MARK, b""), (b"", MARK), (MARK, MARK)])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r\r\n"])
def test_a_mark_at_the_beginning_of_a_file_is_no_part_of_its_first_word(parts, marks, end):
    texts = [b"ann,1,1\nbob,2,0\n", b"cid,3,1\ndan,,0"]
    files = parts(*(mark + text.replace(b"\n", end) for mark, text in zip(marks, texts)))
    wanted = [(b"ann", 1, 1), (b"bob", 2, 0), (b"cid", 3, 1), (b"dan", 7, 0)]
    assert rows_of(files) == wanted
    assert sorted(rows_of(files, shuffle=4, seed=1)) == wanted
    assert rows_of(files, shard=(1, 2)) == wanted[1::2]


def test_a_bad_row_of_a_marked_file_is_named_by_its_line(parts):
    files = parts(b"ann,1,1\n", MARK + b"bob,2,0\ncid,x,1\n")
    with pytest.raises(BadData, match=r"part-1.csv, line 2: column 'x' must be a number; received 'x'"):
        rows_of(files)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_tables_with_a_header_and_raw_files_have_no_mark_either(tmp_path, parts, ending):
    pack = gzip.compress if ending.endswith(".gz") else bytes
    [path] = parts(pack(MARK + b"word,x,click\nann,1,1\n"), ending=ending)
    assert data.table(path).to_pydict() == {"word": ["ann"], "x": [1], "click": [1]}
    raw = "\t".join(["1", *map(str, range(39))]).encode()
    sources = parts(pack(MARK + raw + b"\n" + MARK + raw), pack(MARK + raw), ending=ending)
    assert convert("criteo", sources, tmp_path / "rows.parquet", progress=False).rejected == 0
    assert data.table(tmp_path / "rows.parquet")["label"].to_pylist() == [1, 1, 1]
    events = [{"reviewerID": "u", "asin": f"i{i}", "unixReviewTime": i} for i in range(3)]
    item = {"asin": "i0", "categories": [["c"]]}
    (tmp_path / "reviews_a.json").write_bytes(MARK + "\n".join(map(json.dumps, events)).encode())
    (tmp_path / "meta_a.json").write_bytes(MARK + json.dumps(item).encode())
    jsons = [tmp_path / "reviews_a.json", tmp_path / "meta_a.json"]
    assert convert("amazon_reviews", jsons, tmp_path / "rows.parquet", progress=False).rejected == 0


@pytest.mark.parametrize("text", ["word,x\nann,1\n{}bob,2\n", "x,word\n1,ann\n{}2,bob\n", "word\nann\n{}bob\n"])
def test_a_table_with_a_mark_inside_is_refused(parts, text):
    [path] = parts(text.format("\ufeff").encode())
    for read in (data.table, lambda path: data.table(path, SCHEMA), lambda path: Schema.infer(path, "x")):
        with pytest.raises(BadData, match=r"part-0.csv .*row 1, counted from 0, begins with one, .*: read each file by itself"):
            read(path)
    [path] = parts(MARK + MARK + text.format("").encode())
    with pytest.raises(BadData, match="the name of its first column begins with one"):
        data.table(path)


def test_labels_of_a_marked_file(parts):
    text = b"_request,_row,_time,click\nr1,0,2026-01-01T10:00:00Z,1\n"
    [path] = parts(MARK + text)
    [table] = read_labels(path)
    assert table["_request"].to_pylist() == ["r1"] and table["click"].to_pylist() == [1]
    [path] = parts(text + MARK + text.splitlines()[1])
    with pytest.raises(BadData, match="row 1, counted from 0, begins with one"):
        [*read_labels(path)]
    [path] = parts(text.decode().encode("utf-16"))
    with pytest.raises(BadData, match=r"part-0.csv") as caught:
        [*read_labels(path)]
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["utf-16", "utf-16-be"])
def test_utf_16_is_refused_with_the_cure(tmp_path, parts, name):
    text = "ann,1,1\nbob,2,0\n".encode(name)
    [path] = parts(text if text.startswith((b"\xff\xfe", b"\xfe\xff")) else b"\xfe\xff" + text)
    for read in (rows_of, data.table, lambda path: convert("criteo", path, tmp_path / "rows.parquet", progress=False)):
        with pytest.raises(BadData, match=r"UTF-8.*UTF-16|UTF-16.*UTF-8") as caught:
            read(path)
        assert str(path) in str(caught.value) and len(str(caught.value).splitlines()) == 1


NO_TEXTS = {
    "utf-16-le": TABLE.encode("utf-16-le"),
    "utf-16-be": TABLE.encode("utf-16-be"),
    "gzip": gzip.compress(TABLE.encode()),
    "Parquet": b"PAR1\0\0",
}


@pytest.mark.parametrize("content", NO_TEXTS.values(), ids=NO_TEXTS)
def test_a_table_that_is_no_text_is_refused_with_the_cure(parts, content):
    """UTF-16 without its mark, and files of another format whose name ends with .csv."""
    [path] = parts(content)
    for read in (data.table, lambda path: Schema.infer(path, "x")):
        with pytest.raises(BadData, match=r"part-0.csv can't .* it has UTF-16, or no text: save it as UTF-8") as caught:
            read(path)
        assert str(caught.value).isprintable()


REFUSED = {
    "the line ends of old Macs": (b"ann,1,1\rbob,2,0\r", "line 1: a carriage return .*let lines end in a newline"),
    "a carriage return in a word": (b"ann,1,1\nb\rob,2,0\n", "line 2: a carriage return .* inside it"),
    "a word in quotes": (b'ann,1,1\n"bob",2,0\n', "line 2: quotes would be a part of the words.*QUOTE_NONE"),
    "a header in quotes": (b'"word","x","click"\nann,1,1\n', "line 1: quotes .*with a header"),
    "a number in quotes": (b'ann,"1",1\n', "line 1: quotes"),
    "a header with an index": (b",word,x,click\n0,ann,1,1\n", "line 1: this is a header line; .*`ctrlab.data.write`"),
    "bytes that are not UTF-8": (b"ann,1,1\nb\xe4,1,0\n", "line 2: text must be UTF-8; byte 0xe4"),
    "a space that is none": ("ann,1,1\nbob,\u00a02,0\n".encode(), "line 2: column 'x' must be a number; received '.xa02'"),
    "digits of another script": ("ann,\uff11\uff12,1\n".encode(), "line 1: column 'x' must be a number; received"),
    "a number as Python has it": (b"ann,1_000,1\n", "line 1: column 'x' must be a number; received '1_000'"),
    "a mark inside, as where files were joined": (b"ann,1,1\n" + MARK + b"bob,2,0\n", "line 2: a byte-order mark .*sed -i"),
    "two marks": (MARK + MARK + b"ann,1,1\n", "line 1: a byte-order mark"),
    "a hexadecimal number": (b"0x1,1,1\nbob, -0X1p3,0\n", "line 2: column 'x' must be a number of decimal digits.*'0X'"),
    "a hexadecimal label": (b"ann,1,0x1\n", "line 1: column 'click' must be a number of decimal digits"),
    "a number with a NUL": (b"ann,1\0,1\n", "line 1: column 'x' must be a number; received '1.x00'"),
}


@pytest.mark.parametrize(("content", "said"), REFUSED.values(), ids=REFUSED)
def test_what_would_be_another_value_is_refused(parts, content, said):
    [path] = parts(content)
    with pytest.raises(BadData, match=said) as caught:
        rows_of(path)
    assert str(path) in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_a_stray_byte_is_found_in_any_block(parts, monkeypatch):
    monkeypatch.setattr("ctrlab.data.csv.BLOCK_BYTES", 8)
    for bad, said in ((b"b\rob", "carriage"), (b'"bob"', "quotes"), (b"b\xe4b", "UTF-8")):
        for before in range(6):
            [path] = parts(b"ann,1,1\r\n" * before + bad + b",2,0\r\n")
            with pytest.raises(BadData, match=f"line {before + 1}: .*{said}"):
                rows_of(path)
    [path] = parts(MARK + "\u00e4\u00f6\u00fc,1,1\r\n".encode() * 9)
    assert len(rows_of(path)) == 9


@pytest.mark.parametrize("word", ['"', '"bob"', '"bob" and ann', "\ufeffbob"])
def test_a_word_that_begins_with_a_quote_or_a_mark_is_not_written_as_csv(tmp_path, word):
    table = {"word": ["ann", word], "x": [1, 2], "click": [1, 0]}
    with pytest.raises(BadData, match=r"'word' can't begin with a quote or a byte-order mark.*write another format"):
        data.write(table, SCHEMA, tmp_path / "rows.csv", progress=False)
    data.write(table, SCHEMA, tmp_path / "rows.parquet", progress=False)
    assert rows_of(tmp_path / "rows.parquet")[1][0] == word.encode()


SIGNS = st.characters(codec="utf-8", exclude_characters="\n\r,")
WORDS = st.text(SIGNS, max_size=4) | st.text("\"' \t\0\x0b\x85\u2028;|", max_size=3)
ODD = [
    "",
    "1",
    "+1",
    " 1",
    "1 ",
    ".5",
    "1.",
    "1e3",
    "007",
    "NA",
    "nan",
    "inf",
    "1,5",
    "x",
    "1d",
    "\t2",
    "--1",
    "1_0",
    "1\0",
    "0x10",
    "-0X1p3",
    "True",
]
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from(ODD)
LINES = st.lists(st.tuples(WORDS, NUMBERS, st.sampled_from("01")), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_values_are_those_that_pandas_and_arrow_read(tmp_path_factory, lines, end, mark, last):
    path = tmp_path_factory.getbasetemp() / "rows.csv"
    path.write_bytes(MARK * mark + (end.join(",".join(line) for line in lines) + end * last).encode())
    source = Source((path,), "csv", SCHEMA)
    try:
        [batch] = pipeline.records(source).batch(9)
        found = pipeline.decoder(source)(batch)
    except (BadData, tf.errors.InvalidArgumentError):
        return
    options = {"header": None, "names": ["word", "x", "click"], "encoding": "utf-8-sig", "skip_blank_lines": False}
    frame = pd.read_csv(path, dtype={"word": str}, keep_default_na=False, na_values={"x": [""]}, **options)
    types = {"word": pa.string(), "x": pa.float64(), "click": pa.int64()}
    arrow = pa.csv.read_csv(
        path,
        read_options=pa.csv.ReadOptions(column_names=[*types]),
        convert_options=pa.csv.ConvertOptions(column_types=types),
    )
    for other in (frame, arrow.to_pandas()):
        assert found["word"].numpy().tolist() == [word.encode() for word in other["word"]]
        assert found["x"].numpy().tolist() == other["x"].astype(float).fillna(7).astype(np.float32).tolist()
        assert found["click"].numpy().tolist() == other["click"].tolist()


def test_hidden_files_and_parts_without_rows_are_left_out(tmp_path):
    table = {"word": ["ann", "bob"], "x": [1, 2], "click": [1, 0]}
    for format, (ending, *_) in data.FORMATS.items():
        folder = tmp_path / format
        folder.mkdir()
        for part in (1, 3):
            data.write(table, SCHEMA, folder / f"part-{part}{ending}", progress=False)
        for part in (0, 2, 4):
            data.write([], SCHEMA, folder / f"part-{part}{ending}", progress=False)
        for name in ("_SUCCESS", f".part-1{ending}.crc", f"_part{ending}", f".hidden{ending}", "notes.txt"):
            (folder / name).write_bytes(b"no row")
        if format != "parquet":
            (folder / f"part-5{ending}").touch()
        for files in (folder, sorted(folder.glob(f"part*{ending}"))):
            assert rows_of(files) == [(b"ann", 1, 1), (b"bob", 2, 0)] * 2
            assert len(rows_of(files, shuffle=9, seed=1, shard=(0, 2))) == 2
        for part in (1, 3):
            (folder / f"part-{part}{ending}").unlink()
        with pytest.raises(BadData, match=rf"Each of the \d files from .*part-0{ending} .*: none has a row"):
            rows_of(folder)


@pytest.mark.parametrize("name", ["b.CSV", "b.csv.gz", "b.pq", "day=2"])
def test_a_part_that_would_be_left_out_is_refused(tmp_path, name):
    (tmp_path / "a.csv").write_text("ann,1,1\n")
    (tmp_path / name).mkdir() if "=" in name else (tmp_path / name).write_text("bob,2,0\n")
    with pytest.raises(BadData, match=rf"{name} would be left out"):
        data.read(tmp_path, SCHEMA, batch_size=1)


def test_hexadecimal_numbers_of_a_table_are_words_or_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("word,x,click\n0x1f,2,1\n 0X1e,0x10,0\n")
    assert data.table(path)["word"].to_pylist() == ["0x1f", " 0X1e"] and data.table(path)["x"].to_pylist() == ["2", "0x10"]
    with pytest.raises(BadData, match=r"numbers are decimal; column 'x' has '0x10' in row 1"):
        data.write(path, SCHEMA, tmp_path / "a.parquet", progress=False)


def test_a_file_of_a_mark_alone_and_one_of_no_bytes(parts):
    with pytest.raises(BadData, match=r"part-0.csv is empty: it has no rows"):
        rows_of(parts(MARK))
    assert rows_of(parts(MARK, b"ann,1,1")) == [(b"ann", 1, 1)]
    with pytest.raises(BadData, match=r"part-0.parquet is empty: .* write it again"):
        rows_of(parts(b"", ending=".parquet"))
    with pytest.raises(BadData, match=r"ends with .gz, .*unpack it"):
        rows_of(parts(gzip.compress(b"ann,1,1"), ending=".csv.gz"))
