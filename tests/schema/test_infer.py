"""`Schema.infer` follows its rules, and a printed schema is the code that makes it."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import data
from ctrlab.errors import BadData, CtrlabError
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence, guess

ROWS = 4_000


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)

    def lists(make):
        return [list(make(size)) for size in rng.integers(0, 6, ROWS)]

    found = pd.DataFrame(
        {
            "clicked": rng.integers(0, 2, ROWS),
            "user": rng.integers(0, 700, ROWS),
            "itemId": rng.integers(0, 300, ROWS),
            "age": rng.integers(18, 80, ROWS),
            "hour": rng.integers(0, 24, ROWS),
            "price": np.exp(rng.normal(3, 2, ROWS)),
            "change": np.exp(rng.normal(3, 2, ROWS)) - 5,
            "share": rng.random(ROWS),
            "year": rng.integers(1950, 2001, ROWS).astype(float),
            "city": rng.choice(["Rome", "Oslo", None], ROWS),
            "zip": rng.integers(10_000, 10_900, ROWS).astype(float),
            "mobile": rng.random(ROWS) < 0.5,
            "itemId_history": lists(lambda n: rng.integers(0, 300, n)),
            "itemId_words": lists(lambda n: rng.choice(["x", "y"], n)),
            "tags": lists(lambda n: rng.choice(["a;b", "c"], n)),
            "scores": lists(lambda n: rng.random(n)),
            "time": pd.date_range("2026-01-01", periods=ROWS, freq="min"),
            "request": [f"r{i}" for i in range(ROWS)],
            "version": 7,
            "nothing": None,
        }
    )
    found.loc[::7, ["year", "zip"]] = np.nan
    return found


def test_each_rule(frame):
    schema = Schema.infer(frame, user="user")
    assert schema.columns == (
        Label("clicked"),
        Categorical("user", buckets=10_000),
        Categorical("itemId", buckets=5_000),
        Numeric("age", transform="minmax", low=18.0, high=79.0, default=float(frame["age"].median())),
        Categorical("hour", buckets=1_000),
        Numeric("price", transform="log1p"),
        Numeric("change", transform="log1p", low=float(frame["change"].min())),
        Numeric("share"),
        Numeric("year", transform="minmax", low=1950.0, high=2000.0, default=float(frame["year"].median())),
        Categorical("city", buckets=1_000),
        Categorical("zip", buckets=10_000),
        Numeric("mobile"),
        Sequence("itemId_history", buckets=5_000, of="itemId", table="itemId"),
        MultiHot("itemId_words", buckets=1_000),
        MultiHot("tags", buckets=1_000, separator="|"),
        NumericList("scores"),
    )
    assert schema.wide == ("user", "itemId", "hour", "city", "zip", "itemId_words", "tags")
    assert schema.user == "user"
    left_out = [note.split()[2].rstrip(",") for note in schema.notes if note.startswith("left out")]
    assert left_out == ["time", "request", "version", "nothing"]


def test_several_labels_and_soft_ones(frame):
    frame = frame.assign(bought=frame["clicked"] * (frame["hour"] < 5), mean=frame["share"])
    assert [c.name for c in Schema.infer(frame, ["clicked", "bought"]).labels] == ["clicked", "bought"]
    assert Schema.infer(frame, "mean", soft=True).labels == (Label("mean", soft=True),)


def test_a_table_is_what_it_is_wherever_it_lies(frame, tmp_path):
    flat = frame[["clicked", "user", "age", "hour", "price", "city", "zip", "time"]]
    flat.to_csv(tmp_path / "rows.csv", index=False)
    flat.to_csv(tmp_path / "rows.tsv.gz", index=False, sep="\t")
    flat.to_parquet(tmp_path / "rows.parquet")
    arrow = pa.Table.from_pandas(flat)
    sources = [arrow, arrow.to_batches(), arrow.to_reader(), *(str(tmp_path / f"rows.{e}") for e in ("csv", "tsv.gz", "parquet"))]
    schema = Schema.infer(flat)
    for source in sources:
        assert Schema.infer(source) == schema


def test_what_was_inferred_can_be_written_and_read(frame, tmp_path):
    schema = Schema.infer(frame, user="user")
    for format in data.FORMATS:
        path = tmp_path / f"rows{data.FORMATS[format][0]}"
        assert data.write(frame, schema, path, progress=False) == ROWS
        [(features, _)] = data.read(path, schema, batch_size=ROWS)
        assert features["itemId"].numpy().tolist() == [str(i).encode() for i in frame["itemId"]]
        zips = ["" if np.isnan(z) else str(int(z)) for z in frame["zip"]]
        assert features["zip"].numpy().astype(str).tolist() == zips
        assert features["itemId_history"].to_list() == [[str(i).encode() for i in row] for row in frame["itemId_history"]]


CLICKS = {"clicked": [0, 1, 1], "age": [20.5, 30.0, 40.0]}
REFUSED = {
    "no label": (lambda: Schema.infer(CLICKS, "klick"), "'klick'; known are clicked, age. Did you mean 'clicked'"),
    "no label at all": (lambda: Schema.infer(CLICKS, []), "a label at least"),
    "no user": (lambda: Schema.infer(CLICKS, user="userr"), "'userr'"),
    "a user that is no id": (lambda: Schema.infer(CLICKS, user="age"), "must name a categorical"),
    "other numbers": (
        lambda: Schema.infer(CLICKS | {"clicked": [0, 4, 5]}),
        "has 4 in row 1, counted from 0: make it 0 or 1 first",
    ),
    "shares": (
        lambda: Schema.infer(CLICKS | {"clicked": [0, 0.5, 1]}),
        "has 0.5 in row 1, counted from 0: for shares say soft=True",
    ),
    "no share": (
        lambda: Schema.infer(CLICKS | {"clicked": [0, 1.5, 1]}, soft=True),
        r"in \[0, 1\].* has 1.5 in row 1, counted from 0",
    ),
    "a label that is NaN": (lambda: Schema.infer(CLICKS | {"clicked": [0, float("nan"), 1]}), "has nan in row 1, counted from 0"),
    "a label that is missing": (lambda: Schema.infer(CLICKS | {"clicked": [0, None, 1]}), "lacks 1 of 3"),
    "a label of text": (lambda: Schema.infer(CLICKS | {"clicked": ["0", "1", "1"]}), "is string: make it a number"),
    "one label": (lambda: Schema.infer(CLICKS | {"clicked": [1, 1, 1]}), "always 1"),
    "no rows": (lambda: Schema.infer(pa.table(CLICKS).slice(0, 0)), "the table has none"),
    "two of one name": (lambda: Schema.infer(pa.table([[0, 1], [1, 2], [1, 2]], ["clicked", "a", "a"])), "'a' more than once"),
    "nothing to learn from": (lambda: Schema.infer({"clicked": [0, 1], "one": [1, 1]}), "none of use .left out: one, 1 in every"),
    "numbers that are NaN": (lambda: Schema.infer(CLICKS | {"age": [1.5, float("nan"), 2]}), "column 'age' has nan"),
}


@pytest.mark.parametrize(("infer", "said"), REFUSED.values(), ids=REFUSED)
def test_a_table_that_gives_no_schema(infer, said):
    with pytest.raises(CtrlabError, match=said) as caught:
        infer()
    assert len(str(caught.value).splitlines()) == 1


def test_odd_types_are_left_out_or_done():
    table = pa.table(
        {
            "clicked": [True, False],
            "bytes": [b"a", b"b"],
            "nested": [{"a": 1}, {"a": 2}],
            "holes": [["a", None], ["b"]],
            "empty": pa.array([[], []], pa.list_(pa.string())),
            "huge": pa.array([2**64 - 1, 5], pa.uint64()),
            "cents": pa.array([1, 250], pa.decimal128(9, 2)),
            "fixed": pa.array([["a", "b"], ["b", "c"]], pa.list_(pa.string(), 2)),
            "shop_id": pa.array([2**64 - 1, 5], pa.uint64()),
        }
    )
    schema = Schema.infer(table)
    assert [(c.name, c.kind) for c in schema.features] == [
        ("huge", "numeric"),
        ("cents", "numeric"),
        ("fixed", "multi_hot"),
        ("shop_id", "categorical"),
    ]


def test_what_no_column_can_hold_is_left_out_with_a_note(tmp_path):
    ages, intervals = pd.Series([1.0, 20, 40, 60]), pa.array([["a"], ["b"]])
    signs = "".join(guess.SEPARATORS)
    table = data.table(pd.DataFrame({"clicked": [0, 1, 1, 0], "x": ages, "ages": pd.cut(ages, 2)}))
    more = {
        "lists": pa.DictionaryArray.from_arrays([0, 1, 0, 1], intervals),
        "empty": pa.array([["a", ""], [], ["b"], None]),
        "signs": pa.array([[signs], [], ["b"], None]),
    }
    for name, values in more.items():
        table = table.append_column(name, values)
    schema = Schema.infer(table)
    assert [c.name for c in schema.features] == ["x"]
    notes = dict(note.removeprefix("left out: ").split(", ", 1) for note in schema.notes)
    assert list(notes) == ["ages", *more] and notes["ages"].startswith("of type dictionary<values=")
    assert notes["empty"] == "a list with entries that are empty" and notes["signs"].startswith("a list with words that hold ';'")
    data.write(table, schema, tmp_path / "rows.parquet", progress=False)


@pytest.mark.filterwarnings("error")
def test_types_that_few_of_arrows_functions_take(tmp_path):
    words = ["a", "b", "a", None]
    table = pa.table(
        {
            "clicked": [0, 1, 1, 0],
            "word": pa.array(words, pa.string_view()),
            "tags": pa.array([[w] if w else [] for w in words], pa.list_(pa.string_view())),
            "half": pa.array(np.array([3000, 1, 2.5, 60_000], np.float16)),
            "whole": pa.array(np.array([3000, 1, 2, 60_000], np.float16)),
            "holes": pa.DictionaryArray.from_arrays([0, 1, 2, 2], ["a", None, "b"]),
        }
    )
    schema = Schema.infer(table)
    assert {c.name: c.kind for c in schema.features} == {
        "word": "categorical",
        "tags": "multi_hot",
        "half": "numeric",
        "whole": "numeric",
        "holes": "categorical",
    }
    data.write(table, schema, tmp_path / "rows.parquet", progress=False)
    [(features, _)] = data.read(tmp_path / "rows.parquet", schema, batch_size=4)
    assert features["half"].numpy().tolist() == [3000, 1, 2.5, 60_000]
    assert features["word"].numpy().tolist() == [b"a", b"b", b"a", b""]
    assert features["holes"].numpy().tolist() == [b"a", b"", b"b", b"b"]


def test_whole_numbers_of_any_size_are_written_by_their_own_schema(tmp_path):
    table = pa.table(
        {"clicked": [0, 1, 1], "views": [19_202_781, 5, 7], "seconds": [1_764_000_001, 1_764_000_002, 1_764_000_003]}
    )
    assert data.write(table, Schema.infer(table), tmp_path / "rows.parquet", progress=False) == 3


def test_ids_in_a_text_file_are_words(tmp_path):
    hashes = [2**64 - 1 - i % 7 for i in range(100)]
    rows = "".join(f"{i % 2},0{i % 9},{hashes[i]},{i / 8}\n" for i in range(100))
    (tmp_path / "rows.csv").write_text("clicked,zip,hash,x\n" + rows)
    schema = Schema.infer(tmp_path / "rows.csv")
    assert [c.kind for c in schema.features] == ["categorical", "categorical", "numeric"]
    data.write(tmp_path / "rows.csv", schema, tmp_path / "rows.parquet", progress=False)
    [(features, _)] = data.read(tmp_path / "rows.parquet", schema, batch_size=100)
    assert features["hash"].numpy().astype(str).tolist() == [str(number) for number in hashes]


NAMES = st.text(st.characters(exclude_characters="/", exclude_categories=("Cs",)), min_size=1, max_size=6)
WHOLE = st.integers(1, 10**6)
FLOATS = st.floats(-1e9, 1e9)
SEPARATORS = st.sampled_from([";", "|", "\x02", "\t", "'", '"', "\\"])
RANGES = st.tuples(st.sampled_from(["none", "log1p", "minmax"]), FLOATS, st.floats(1, 9)).map(
    lambda r: {"transform": r[0], "low": r[1], "high": r[1] + r[2] * max(1.0, abs(r[1]))}
)
WORDS = st.lists(st.text(max_size=4), min_size=1, max_size=4, unique=True).map(tuple)
IDS = st.one_of(
    st.builds(dict, buckets=WHOLE, encoding=st.sampled_from(["hash", "identity"]), encoded=st.booleans()),
    st.builds(dict, encoding=st.just("vocabulary"), vocabulary=WORDS),
)


def column(name: str, other: str):
    lists = st.tuples(IDS, SEPARATORS).map(lambda pair: pair[0] | {"separator": pair[1]})
    return st.one_of(
        st.builds(lambda soft: Label(name, soft=soft), st.booleans()),
        st.builds(lambda default, r: Numeric(name, default=default, **r), FLOATS, RANGES),
        st.builds(lambda r: NumericList(name, default="1", **r), RANGES),
        st.builds(lambda ids: Categorical(name, **ids), IDS),
        st.builds(lambda ids, table: MultiHot(name, **ids, table=table), lists, st.sampled_from(["", "t" + other])),
        st.builds(lambda ids, length: Sequence(name, **ids, max_length=length), lists, WHOLE),
    )


@st.composite
def schemas(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    columns = [draw(column(name, f"{i}")) for i, name in enumerate(names)]
    ids = [c.name for c in columns if hasattr(c, "buckets")]
    categoricals = [c.name for c in columns if isinstance(c, Categorical)]
    return Schema(
        draw(NAMES),
        tuple(columns),
        wide=tuple(draw(st.sets(st.sampled_from(ids))) if ids else ()),
        delimiter=draw(st.sampled_from(",&$")),
        user=draw(st.sampled_from(["", *categoricals])),
        notes=tuple(draw(st.lists(st.text(max_size=30), max_size=2))),
    )


@settings(max_examples=300, deadline=None)
@given(schema=schemas())
def test_a_printed_schema_makes_itself(schema):
    made = {}
    exec(str(schema), made)
    assert made["schema"] == schema


@pytest.mark.parametrize("name", data.SCHEMAS)
def test_the_data_sets_print_themselves(name):
    made = {}
    exec(str(data.schema(name)), made)
    assert made["schema"] == data.schema(name)


def test_only_what_differs_is_printed():
    schema = Schema("own", (Label("y"), Categorical("a")), notes=("left out: b,\nof no use",))
    assert str(schema) == (
        "from ctrlab.schema import Categorical, Label, Schema\n\n"
        'schema = Schema(\n    "own",\n    (\n        Label("y"),\n        Categorical("a"),\n'
        "        # left out: b, of no use\n    ),\n)"
    )


def test_what_cannot_be_a_table(tmp_path):
    (tmp_path / "rows.txt").write_text("a,b\n")
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3\n")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "rows.parquet").write_text("a,b\n")
    (tmp_path / "gone.tsv.gz").write_text("a\tb\n")
    said = {
        str(tmp_path / "rows.txt"): "ends with none of",
        str(tmp_path / "rows.csv"): "Expected 2 columns, got 1",
        str(tmp_path / "empty.csv"): "Empty CSV file",
        str(tmp_path / "rows.parquet"): "damaged, cut off, or of another format",
        str(tmp_path / "gone.tsv.gz"): "can't be read as a table",
        str(tmp_path / "none.csv"): "does not exist",
        tmp_path: "is a folder: name a file in it",
    }
    for source, words in said.items():
        with pytest.raises(BadData, match=words) as caught:
            data.table(source)
        assert len(str(caught.value).splitlines()) == 1 and str(source) in str(caught.value)
    for source in (3, np.zeros(3), [1, 2]):
        with pytest.raises(BadData, match=r"a pandas DataFrame, an Arrow table"):
            data.table(source)
    twice, mixed = pd.DataFrame([[1, 2]], columns=["a", "a"]), pd.DataFrame({"a": [1, "x"]})
    for source in (twice, mixed, {"a": [1], "b": [1, 2]}, pd.Series([1])):
        with pytest.raises(BadData, match="values of one kind and a name of its own"):
            data.table(source)
    odd = [{"good": [1, 2], "odd": column} for column in ([1, 2**64], ["a", 1], [{1}, 2])]
    for source in (*odd, *map(pd.DataFrame, odd), {"good": [1, 2], "odd": 3.5}):
        with pytest.raises(BadData, match=r"one kind and a name of its own: column 'odd': ") as caught:
            data.table(source)
        assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(BadData, match="column 'odd': it has whole numbers too large for int64: make text of them"):
        data.table(odd[0])


def test_missing_values_of_pandas_are_null_and_its_index_is_no_column():
    frame = pd.DataFrame({"x": [1.0, np.nan], "s": ["a", None]}, index=[5, 6])
    table = data.table(frame)
    assert table.column_names == ["x", "s"]
    assert [column.null_count for column in table.columns] == [1, 1]
    assert data.table(frame.rename_axis("user")).column_names == ["user", "x", "s"]


def test_a_list_of_numbers_far_from_0_has_its_middle_for_a_missing_one():
    table = pa.table({"clicked": [0, 1, 0], "prices": [[20.5, 22.5], [30.5], None]})
    assert Schema.infer(table)["prices"] == NumericList("prices", transform="minmax", low=20.5, high=30.5, default="22.5")


@pytest.mark.parametrize("name", data.SCHEMAS)
def test_a_schema_is_inferred_from_the_rows_of_each_data_set(name):
    rows = next(iter(data.generate(name, 2_000, seed=1)))
    labels = [label.name for label in data.schema(name).labels]
    found = Schema.infer(rows, label=labels)
    assert [c.name for c in found.labels] == labels
    names: dict = {}
    exec(str(found), names)
    assert names["schema"] == found
