"""Bad files and bad rows: one clear sentence each, and nothing half-written."""

import errno
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from ctrlab import data
from ctrlab.data import faults, pipeline
from ctrlab.data.outputs import Replacement
from ctrlab.errors import BadData, CtrlabError
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema

SCHEMA = Schema(
    "test",
    (
        Label("click"),
        Categorical("user"),
        Numeric("price"),
        Categorical("slot", encoding="identity", buckets=9),
        MultiHot("tags"),
        NumericList("hours"),
    ),
)
GOOD = "1,ann,2.5,3,a;b,1;2"


def table(**columns) -> pa.Table:
    good = {"click": [1.0], "user": ["ann"], "price": [2.5], "slot": [3], "tags": [["a", "b"]], "hours": [[1.0, 2.0]]}
    return pa.table(good | columns)


def read_all(path, **options):
    with data.explained():
        for _ in data.read(path, SCHEMA, batch_size=4, **options):
            pass


BAD_LINES = {
    "1,ann,2.5": "has 6 fields separated by ','; found 3",
    GOOD + ",7": "found 7",
    "": "found 1",
    "yes,ann,2.5,3,a,1": "'click' must be a number; received 'yes'",
    ",ann,2.5,3,a,1": "'click' must not be empty",
    "1,ann,cheap,3,a,1": "'price' must be a number; received 'cheap'",
    "1,ann,2.5,3.5,a,1": "'slot' must be a whole number; received '3.5'",
    "1,ann,2.5,,a,1": "'slot' must not be empty",
    "1,ann,2.5,9,a,1": "'slot' must lie in [0, 9); received '9'",
    "1,ann,2.5,-1,a,1": "'slot' must lie in [0, 9); received '-1'",
    "1,ann,2.5,3,a,1;;2": "'hours' must be a number; received ''",
    "1,ann,2.5,3,a,1;x": "'hours' must be a number; received 'x'",
    "click,user,price,slot,tags,hours": "header line",
}


@pytest.mark.parametrize(("line", "words"), BAD_LINES.items(), ids=BAD_LINES.values())
def test_bad_line(tmp_path, line, words):
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([GOOD] * 9 + [line] + [GOOD] * 3) + "\n")
    with pytest.raises(BadData) as caught:
        read_all(path, shuffle=20)
    assert words in str(caught.value)
    assert f"{path}, line 10:" in str(caught.value)


def test_a_bad_line_is_found_in_few_readings(tmp_path, monkeypatch):
    """However far down it is: each decoding takes about as long for one line as for thousands."""
    path, decode, calls = tmp_path / "rows.csv", pipeline.decoder, []
    path.write_text("\n".join([GOOD] * 8_000 + [GOOD + ",7"] * 3) + "\n")
    monkeypatch.setattr(pipeline, "decoder", lambda source: lambda batch: (calls.append(batch), decode(source)(batch))[1])
    with pytest.raises(BadData, match=r"line 8001: .*found 7"):
        read_all(path)
    assert len(calls) < 40


def test_not_utf8(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(f"{GOOD}\n{GOOD}\n".encode() + GOOD.replace("ann", "Zo\u00eb").encode("latin-1") + b"\n")
    with pytest.raises(BadData, match=r"line 3: .*UTF-8; byte 0xeb"):
        read_all(path)
    path.write_text(GOOD + "\n")
    read_all(path)  # mended


@pytest.fixture
def written(tmp_path):
    """Writes 5,000 rows of one format."""

    def of(format):
        path = tmp_path / f"rows{data.FORMATS[format][0]}"
        rng = np.random.default_rng(0)
        rows = table().take([0] * 5_000).set_column(1, "user", pa.array(rng.integers(0, 1 << 40, 5_000)).cast(pa.string()))
        data.write([rows], SCHEMA, path, progress=False)
        return path

    return of


@pytest.mark.parametrize("format", ["tfrecord", "tfrecord.gz", "parquet"])
@pytest.mark.parametrize("damage", ["cut off", "changed"])
def test_damaged_file(written, format, damage):
    path = written(format)
    size = path.stat().st_size
    if damage == "cut off":
        os.truncate(path, size - 20)
    else:
        with open(path, "r+b") as file:
            file.seek(size // 3)
            file.write(b"\xa5" * 16)
    with pytest.raises(BadData, match="damaged") as caught:
        read_all(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("format", data.FORMATS)
def test_empty_or_missing_file(tmp_path, format):
    path = tmp_path / f"rows{data.FORMATS[format][0]}"
    with pytest.raises(BadData, match="does not exist"):
        read_all(path)
    path.touch()
    with pytest.raises(BadData, match="is empty"):
        read_all(path)


def test_parquet_without_rows(tmp_path):
    data.write([], SCHEMA, tmp_path / "rows.parquet", progress=False)
    with pytest.raises(BadData, match="is empty"):
        read_all(tmp_path / "rows.parquet")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (table().drop_columns("price"), "has no column 'price'"),
        (table(price=["2.5"]), "'price' of test must be float; it is string"),
        (table(tags=["a;b"]), "'tags' of test must be list<"),
        (table(slot=[3.5]), "'slot' must be int64"),
        (table(click=pa.array([None], pa.float32())), "'click' must not be empty"),
        (table(slot=pa.array([None], pa.int64())), "'slot' must not be empty"),
        (table(user=pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))), "UTF"),
    ],
    ids=str,
)
def test_parquet_of_another_kind(tmp_path, rows, words):
    path = tmp_path / "rows.parquet"
    pq.write_table(rows, path)
    with pytest.raises(BadData) as caught:
        read_all(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_tfrecord_of_another_kind(tmp_path):
    path = tmp_path / "rows.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as records:
        records.write(tf.train.Example().SerializeToString())
    with pytest.raises(BadData, match=r"rows.tfrecord, record 1, counted from 1: .*click"):
        read_all(path)


def test_other_errors_stay_what_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "_readings", type(faults._readings)(maxlen=faults._readings.maxlen))
    (tmp_path / "rows.csv").write_text(GOOD + "\n")
    read_all(tmp_path / "rows.csv")
    with pytest.raises(tf.errors.InvalidArgumentError), data.explained():
        tf.strings.to_number(["x"])
    with pytest.raises(KeyError), data.explained():
        raise KeyError

    def broken():
        yield 1
        raise ArithmeticError("mine")

    (tmp_path / "rows.csv").unlink()  # it was read to its end, so it has no part in what fails now
    with pytest.raises(tf.errors.OpError, match="mine"), data.explained():
        list(tf.data.Dataset.from_generator(broken, output_signature=tf.TensorSpec([], tf.int64)))


@pytest.mark.parametrize("format", ["csv", "tfrecord", "tfrecord.gz"])
def test_the_reading_that_failed_is_named(tmp_path, monkeypatch, format):
    """Whichever was opened last, and though the other has the same fault elsewhere."""
    paths = [tmp_path / f"{name}{data.FORMATS[format][0]}" for name in ("train", "valid")]
    monkeypatch.setattr("ctrlab.data.values.bad", lambda values, column: np.zeros(np.shape(values), bool))
    for path, row in zip(paths, (6, 3)):
        data.write(flat(price=[2.5] * row + [NAN] + [2.5] * (8 - row)), LOOSE, path, progress=False)
    monkeypatch.undo()
    train, valid = (data.read(path, FLAT, batch_size=2) for path in paths)
    with pytest.raises(BadData, match=r"train.*, (line 7|record 7, counted from 1): "), data.explained():
        list(train)
    with pytest.raises(BadData, match=r"valid.*, (line 4|record 4, counted from 1): "), data.explained():
        list(valid.map(lambda features, labels: features["price"]).cache())


def test_two_faults_that_differ_in_a_number(tmp_path):
    for name, word in (("train", "1x"), ("valid", "2x")):
        (tmp_path / f"{name}.csv").write_text(f"{GOOD}\n1,ann,3x,3,a,1\n1,ann,{word},3,a,1\n")
    train, _ = (data.read(tmp_path / f"{name}.csv", SCHEMA, batch_size=1, start=2) for name in ("train", "valid"))
    with pytest.raises(BadData, match=r"train.csv, line 3: .*'1x'"), data.explained():
        list(train)


def test_rows_that_a_reading_leaves_out_are_not_its_fault(tmp_path):
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    bad = "1,ann,cheap,3,a,1"
    files[0].write_text("\n".join([GOOD, bad, GOOD]) + "\n")  # rows 0 to 2
    files[1].write_text("\n".join([GOOD, GOOD, GOOD, bad, bad]) + "\n")  # rows 3 to 7
    for options, place in (
        ({"shard": (0, 2)}, "b.csv, line 4"),
        ({"start": 1}, "b.csv, line 4"),
        ({"shard": (1, 2)}, "a.csv, line 2"),
    ):
        with pytest.raises(BadData, match=place), data.explained():
            list(data.read(files, SCHEMA, batch_size=2, **options))


def test_a_file_whose_name_ends_as_anothers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ctrlab.data.values.bad", lambda values, column: np.zeros(np.shape(values), bool))
    for name, price in (("0.parquet", 2.5), ("10.parquet", NAN)):
        data.write(flat(price=[price] * 9), LOOSE, name, progress=False)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    for files in (["0.parquet", "10.parquet"], ["10.parquet", "0.parquet"]):
        with pytest.raises(BadData, match=r"^10[.]parquet: column 'price'"), data.explained():
            list(data.read(files, FLAT, batch_size=9))
    read_later = data.read("10.parquet", FLAT, batch_size=9), data.read("0.parquet", FLAT, batch_size=9)
    with pytest.raises(BadData, match=r"^10[.]parquet: column 'price'"), data.explained():
        list(read_later[0])


SENTENCE = "Column 'größe' must hold finite numbers."
ESCAPED = "Column \\'gr\\303\\266\\303\\237e\\' must hold finite numbers."


@pytest.mark.parametrize(
    "message",
    [
        f"assertion failed: [{ESCAPED}]",
        f"{{{{function_node __wrapped__Assert}}}} assertion failed: [{ESCAPED}] [Op:Assert]",
        f"{{{{node a}}}} {{{{node b}}}} assertion failed: [{ESCAPED}] [Condition x == y did not hold element-wise:] [x = ] [2 3]",
        'Graph execution error:\n\nDetected at node a/Assert defined at (most recent call last):\n  File "a.py", line 3\n\n'
        f"assertion failed: [{ESCAPED}]\n\t [[{{{{node a/Assert}}}}]] [Op:__inference_f_41]",
        "Exception encountered when calling WDL.call().\n\n\x1b[1m{{function_node __wrapped__Assert}} assertion failed: "
        f"[{ESCAPED}] [Op:Assert] name: \x1b[0m\n\nArguments received by WDL.call():\n  • training=True",
        f"Graph execution error:\n\n2 root error(s) found.\n  (0) INVALID_ARGUMENT:  assertion failed: [{ESCAPED}]"
        "\n\t [[{{node a}}]]\n\t [[IteratorGetNext]]\n  (1) INVALID_ARGUMENT: another",
    ],
)
def test_what_an_assertion_says_is_its_sentence(message):
    assert faults.sentence_of(message) == SENTENCE


def test_the_end_of_the_data_is_no_fault(tmp_path, monkeypatch):
    (tmp_path / "rows.csv").write_text(GOOD + "\n")
    rows = iter(data.read(tmp_path / "rows.csv", SCHEMA, batch_size=1))
    next(rows)
    monkeypatch.setattr(faults, "find", lambda error: pytest.fail("all files are read again at the end of each epoch"))
    with pytest.raises(tf.errors.OutOfRangeError), data.explained():
        rows.get_next()


def test_a_file_is_not_blamed_for_what_came_from_elsewhere(tmp_path):
    (tmp_path / "bad.csv").write_text(GOOD + "\nyes,ann,2.5,3,a,1\n")
    (tmp_path / "changed.csv").write_text(GOOD + "\n")
    read_all(tmp_path / "changed.csv")
    with pytest.raises(BadData, match=r"bad[.]csv, line 2"):
        read_all(tmp_path / "bad.csv")
    data.write(table(), SCHEMA, tmp_path / "changed.csv", "tfrecord.gz", progress=False)
    words = tf.data.Dataset.from_tensors(["elsewhere"]).map(tf.strings.to_number)
    with pytest.raises(tf.errors.InvalidArgumentError, match="StringToNumberOp"), data.explained():
        list(words)


def test_of_two_faults_the_one_that_was_raised_is_named(tmp_path):
    (tmp_path / "a.csv").write_text(GOOD + "\n")
    (tmp_path / "b.csv").write_text(GOOD + "\n1,ann,cheap,3,a,1\nyes,ann,2.5,3,a,1\n")
    with pytest.raises(BadData, match=r"b[.]csv, line 2: .*'cheap'"), data.explained():
        for _ in data.read([tmp_path / "a.csv", tmp_path / "b.csv"], SCHEMA, batch_size=1):
            data.write(table(), SCHEMA, tmp_path / "a.csv", "tfrecord.gz", progress=False)  # now another file is bad, too


@pytest.mark.parametrize(
    ("column", "value"), [("user", "a,b"), ("user", "a\nb"), ("user", "a\rb"), ("tags", ["a,b"]), ("tags", ["a;b"])], ids=str
)
def test_csv_refuses_what_it_could_not_read_again(tmp_path, column, value):
    with pytest.raises(BadData, match=f"'{column}' can't hold"):
        data.write([table(**{column: [value]})], SCHEMA, tmp_path / "rows.csv", progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", data.FORMATS)
def test_empty_entries_are_refused(tmp_path, format):
    for entry in ("", None):
        with pytest.raises(BadData, match="'tags' has a list with an empty one"):
            data.write([table(tags=[["a", entry]])], SCHEMA, tmp_path / "rows", format, progress=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", data.FORMATS)
def test_a_broken_write_leaves_the_old_file(tmp_path, format):
    path = tmp_path / "rows"
    assert data.write([table()], SCHEMA, path, format, progress=False) == 1
    before = path.read_bytes()

    def breaks():
        yield table()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.write(breaks(), SCHEMA, path, format, progress=False)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_no_space(tmp_path, monkeypatch):
    def full(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Replacement, "keep", full)
    for format in data.FORMATS:
        with pytest.raises(CtrlabError, match="can't be written: No space left"):
            data.write([table()], SCHEMA, tmp_path / "rows", format, progress=False)
    assert not list(tmp_path.iterdir())


def test_csv_is_what_the_original_models_read(tmp_path):
    path = tmp_path / "rows.csv"
    empty = table(price=pa.array([None], pa.float32()), user=pa.array([None], pa.string()), tags=[[]], hours=[[]])
    data.write([table(), empty], SCHEMA, path, progress=False)
    assert path.read_text() == GOOD + "\n1,,,3,,\n"


def flat(**columns) -> pa.Table:
    good = {"click": [1.0] * 9, "share": [0.5] * 9, "price": [2.5] * 9, "hours": [[1.0, 2.0]] * 9}
    return pa.table({name: columns.get(name, values) for name, values in good.items()})


FLAT = Schema("flat", (Label("click"), Label("share", soft=True), Numeric("price"), NumericList("hours")))
LOOSE = Schema("loose", (Numeric("click"), Numeric("share"), Numeric("price"), NumericList("hours")))
NAN, INF = float("nan"), float("inf")
ODD_NUMBERS = {
    "NaN": ({"price": [2.5] * 6 + [NAN] + [2.5] * 2}, "'price' must hold finite numbers.*nan"),
    "inf": ({"price": [2.5] * 6 + [INF] + [2.5] * 2}, "'price' must hold finite numbers.*inf"),
    "-inf": ({"price": [2.5] * 6 + [-INF] + [2.5] * 2}, "'price' must hold finite numbers.*-inf"),
    "NaN in a list": ({"hours": [[1.0]] * 6 + [[1.0, NAN]] + [[]] * 2}, "'hours' must hold finite numbers.*nan"),
    "inf in a list": ({"hours": [[]] * 6 + [[1.0, INF]] + [[]] * 2}, "'hours' must hold finite numbers.*inf"),
    "a label of 2": (
        {"click": [1.0] * 6 + [2.0] + [0.0] * 2},
        r"'click' must be 0 or 1 \(for shares say Label\('click', soft=True.*2",
    ),
    "a label between": ({"click": [1.0] * 6 + [0.5] + [0.0] * 2}, r"'click' must be 0 or 1 .*0\.5"),
    "a label of NaN": ({"click": [1.0] * 6 + [NAN] + [0.0] * 2}, "'click' must be 0 or 1 .*nan"),
    "a soft label below 0": ({"share": [0.0, 1.0] * 3 + [-0.1] + [0.0] * 2}, r"'share' must lie in \[0, 1\].*-0\.1"),
    "a soft label of NaN": ({"share": [0.0, 1.0] * 3 + [NAN] + [0.0] * 2}, r"'share' must lie in \[0, 1\].*nan"),
}


@pytest.mark.parametrize("format", data.FORMATS)
@pytest.mark.parametrize(("columns", "said"), ODD_NUMBERS.values(), ids=ODD_NUMBERS)
def test_a_label_or_number_that_breaks_its_rule(tmp_path, monkeypatch, columns, said, format):
    path = tmp_path / f"rows{data.FORMATS[format][0]}"
    monkeypatch.setattr("ctrlab.data.values.bad", lambda values, column: np.zeros(np.shape(values), bool))
    data.write(flat(**columns), LOOSE, path, progress=False)
    monkeypatch.undo()
    for options in ({"shuffle": 20}, {"batch_size": 2}, {"start": 1}):
        with pytest.raises(BadData, match=said) as caught, data.explained():
            list(data.read(path, FLAT, **{"batch_size": 3} | options))
        assert len(str(caught.value).splitlines()) == 1
        place = {"csv": f"{path}, line 7: ", "parquet": "row 6, counted from 0, has"}.get(
            format, f"{path}, record 7, counted from 1: "
        )
        assert place in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize("format", data.FORMATS)
def test_labels_and_numbers_within_their_rules(tmp_path, format):
    path = tmp_path / f"rows{data.FORMATS[format][0]}"
    data.write(flat(share=[0.0, 0.25, 1.0] * 3, price=[None, -3e38, 3e38] * 3), FLAT, path, progress=False)
    [(features, labels)] = data.read(path, FLAT, batch_size=9)
    assert labels.numpy()[:, 1].tolist() == [0.0, 0.25, 1.0] * 3
    assert features["price"].numpy().tolist() == np.float32([0.0, -3e38, 3e38] * 3).tolist()
