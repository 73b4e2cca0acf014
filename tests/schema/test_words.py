"""What a value of a column of ids is as a word: one rule, whatever way it comes into a table."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ctrlab import data, models, training
from ctrlab.errors import BadData, BadSchema
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, Schema
from ctrlab.schema.words import differ, word, words

SCHEMA = Schema("own", (Label("click"), Categorical("word", buckets=1 << 20), Numeric("x")))
RULE = {
    "438": ("438", "438.0", "438.", " 438", "438\t", "+438", "4.38e+02", "4.38E2", "438.0e+0"),
    "0": ("0", "-0", "+0", "0.0", "-0.00", ".0", "0.000000e+00"),
    "-7": ("-7", "-7.0", "-7.0E0"),
    "1000": ("1E+03", "1e+3", "10000e-1"),
    "20000000000000000": ("2e+16", "2.0E16"),
    "12345678901234567890": ("12345678901234567890", "12345678901234567890.0"),
    "-9223372036854775808": ("-9.223372036854775808e+18",),
}
THEMSELVES = ("", "0438", "+01", "1e3", "12E45", "0x10", "1.5", "1.5e+00", "1e+20", "1e+400", "inf", "nan", "NA", "true")
THEMSELVES += ("0438.0", "00.0", "01e+1", "-01.", "0.99999999999999999999", "12345678901234567.5", "." + 80 * "0")
THEMSELVES += (
    "\xa05",
    "5\xa0",
    "1_0",
    "１",
    "--1",
    ".",
    "-",
    "+",
    "e+1",
    "1.0.0",
    "v438",
    "4 38",
    "438.0 m",
    "+-5",
    "1e-400",
    "\n5",
    "5\n",
)


def test_the_rule():
    for expected, texts in RULE.items():
        assert [word(text) for text in texts] == [expected] * len(texts)
    assert [word(text) for text in THEMSELVES] == [*THEMSELVES]


NUMERALS = st.from_regex(r"[ \t]?[+-]?[0-9]{0,3}\.?[0-9]{0,2}([eE][+-]?[0-9]{1,2})?[ \t]?", fullmatch=True)
TEXTS = st.sampled_from([text for texts in (*RULE.values(), THEMSELVES) for text in texts]) | NUMERALS | st.text(max_size=5)


@given(st.lists(st.none() | TEXTS, max_size=8))
def test_many_texts_have_the_words_of_each(texts):
    array = pa.array(texts, pa.string())
    assert words(array).to_pylist() == [text if text is None else word(text) for text in texts]
    assert words(pa.chunked_array([array, array])).to_pylist() == 2 * words(array).to_pylist()
    spelled = [text for text in texts if text is not None]
    assert [word(word(text)) for text in spelled] == [word(text) for text in spelled]


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9), st.data())
def test_a_number_has_the_word_of_each_way_to_write_it(number, data):
    x = float(number)
    assume(-(2.0**63) <= x < 2.0**63)
    assert word(str(number)) == str(number) and word(f"{number}.0") == str(number)
    for text in (repr(x), f"{x:.20e}", f"{x:.0f}", np.format_float_scientific(x)):
        assert word(text) == str(int(x))
        assert not differ(pa.chunked_array([[text]]), pa.chunked_array([[x]]))


@pytest.fixture(scope="module")
def model():
    return models.build("wdl", SCHEMA, "stock")


IN_FILES = TEXTS.filter(lambda text: not set(text) & set('\r\n\0",\ufeff'))


def written(tables, folder):
    data.write(tables, SCHEMA, folder / "rows.parquet", progress=False)
    return pq.read_table(folder / "rows.parquet")["word"].to_pylist()


@given(texts=st.lists(IN_FILES, min_size=2, max_size=6))
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_text_file_has_one_set_of_words(tmp_path_factory, texts):
    """Read by a schema, and read without one, split and written. Numbers with a fraction and dates are refused without one."""
    folder = tmp_path_factory.mktemp("rows")
    rows = pd.DataFrame({"word": texts, "x": range(len(texts)), "click": 0})
    rows.to_csv(folder / "rows.csv", index=False)
    expected = written(folder / "rows.csv", folder)
    assert all(text in (None, word(given)) for given, text in zip(texts, expected))
    try:
        parts = [
            pair for part in data.split(folder / "rows.csv", 0.5) for pair in zip(part["x"].to_pylist(), written(part, folder))
        ]
    except BadData as refused:
        assert "make text of it" in str(refused)
        return
    assert [text for _, text in sorted(parts, key=lambda pair: pair[0])] == expected


@given(numbers=st.lists(st.none() | st.integers(-(2**53), 2**53), min_size=1, max_size=5))
@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_row_has_one_score_whatever_way_its_ids_come(model, tmp_path_factory, numbers):
    folder = tmp_path_factory.mktemp("rows")
    x = np.arange(len(numbers))
    frames = {
        "objects": pd.DataFrame({"word": pd.Series(numbers, dtype=object), "x": x}),
        "floats": pd.DataFrame({"word": pd.Series(numbers, dtype="float64"), "x": x}),
        "whole": pd.DataFrame({"word": pd.Series(numbers, dtype="Int64"), "x": x}),
        "texts": pd.DataFrame({"word": pd.Series([n if n is None else str(n) for n in numbers], dtype=object), "x": x}),
        "texts of floats": pd.DataFrame(
            {"word": pd.Series([n if n is None else f"{n}.0" for n in numbers], dtype=object), "x": x}
        ),
    }
    found = {}
    for name, frame in frames.items():
        frame.to_csv(folder / "rows.csv", index=False)
        frame.to_parquet(folder / "rows.parquet")
        found |= {name: training.score(model, frame), f"{name}, Parquet": training.score(model, folder / "rows.parquet")}
        found |= {f"{name}, CSV": training.score(model, folder / "rows.csv")}
        found |= {f"{name}, CSV by pandas": training.score(model, pd.read_csv(folder / "rows.csv", float_precision="round_trip"))}
    for name, p in found.items():
        np.testing.assert_array_equal(p, found["objects"], name)


def test_lists_vocabularies_and_defaults_have_words():
    schema = Schema(
        "own",
        (
            Label("click"),
            Categorical("plan", encoding="vocabulary", vocabulary=("1.0", "2", "x"), default="2.0"),
            MultiHot("tags", separator=";"),
        ),
    )
    assert schema["plan"].vocabulary == ("1", "2", "x") and schema["plan"].default == "2"
    rows = {"click": [0, 1], "plan": [1.0, None], "tags": [["1.0", "x"], None]}
    [table] = data.encode([pa.table(rows)], schema)
    assert table["plan"].to_pylist() == [0, 1]
    [other] = data.encode([pa.table(rows | {"tags": [["1", "x"], None]})], schema)
    assert table["tags"].to_pylist() == other["tags"].to_pylist()
    with pytest.raises(BadSchema, match=r"words of a vocabulary differ; .* has .*, which are one word: leave one out"):
        Categorical("plan", encoding="vocabulary", vocabulary=("1.0", "1"))


def test_parquet_of_others_is_read_as_words(tmp_path):
    """As Spark writes it: not by `data.write`, which would have made words of the values."""
    schema = Schema("own", (Label("click"), Categorical("word", default="none"), MultiHot("tags", separator=";")))
    texts = [text for texts in (*RULE.values(), THEMSELVES) for text in texts]
    expected = [word(text) or "none" for text in texts]
    lists = [[text] if text else [] for text in texts]
    columns = {"word": pa.array(texts), "tags": pa.array(lists), "click": pa.array([0] * len(texts))}
    for values in (columns["word"], columns["word"].dictionary_encode(), columns["word"].cast(pa.large_string())):
        pq.write_table(pa.table(columns | {"word": values}), tmp_path / "rows.parquet")
        for form in ("ragged", "text"):
            [(features, _)] = data.read(tmp_path / "rows.parquet", schema, batch_size=len(texts), lists=form)
            assert [text.decode() for text in features["word"].numpy()] == expected
            tags = features["tags"].numpy().tolist()
            found = (
                [text.decode() for text in tags]
                if form == "text"
                else [b"".join(entries).decode() for entries in features["tags"].to_list()]
            )
            assert found == [word(text) for text in texts]
