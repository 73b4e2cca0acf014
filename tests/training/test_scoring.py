"""`score` answers for rows in memory what evaluation answers for the same rows in a file."""

import gc
import weakref

import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import ctrlab
from ctrlab import data
from ctrlab.errors import BadData, CtrlabError
from ctrlab.model_names import DATA_SETS
from ctrlab.models.deepfm import DeepFM
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema
from ctrlab.training import compile_model, evaluate, predict_step, score, scoring

ROWS = 150


def of_file(model, path, batch_size: int) -> np.ndarray:
    predict = predict_step(model)
    return np.concatenate([predict(features).numpy() for features, _ in data.read(path, model.schema, batch_size=batch_size)])


@pytest.mark.parametrize("name", DATA_SETS)
def test_it_answers_as_for_the_same_rows_in_a_file(name, tmp_path):
    schema = data.schema(DATA_SETS[name]).with_buckets(500)
    table = pa.concat_tables(data.generate(DATA_SETS[name], ROWS, seed=3))
    data.write(table, schema, tmp_path / "rows.parquet", progress=False)
    model = ctrlab.build(name, schema)
    wanted = of_file(model, tmp_path / "rows.parquet", 64)
    unlabelled = table.drop_columns([label.name for label in schema.labels])
    for source in (table, unlabelled, unlabelled.to_pandas(), tmp_path / "rows.parquet"):
        found = score(model, source, batch_size=64)
        assert found.dtype == np.float32 and found.shape == (ROWS, len(schema.labels))
        np.testing.assert_array_equal(found, wanted)
    if model.rows_apart:
        np.testing.assert_allclose(score(model, table, batch_size=7), wanted, rtol=1e-5)
    assert score(model, table.slice(0, 0)).shape == (0, len(schema.labels))
    assert score(model, table.slice(0, 1), batch_size=1).shape == (1, len(schema.labels))


OWN = Schema(
    "own",
    (
        Label("click"),
        Categorical("user", buckets=50, default="?"),
        Categorical("city", encoding="vocabulary", vocabulary=("Oslo", "Rome")),
        Categorical("slot", encoding="identity", buckets=9, default="4"),
        Numeric("price", default=2.5, transform="log1p"),
        MultiHot("tags", buckets=50),
        NumericList("hours", default="1;2"),
    ),
    wide=("user",),
)


def frame(**columns) -> pd.DataFrame:
    good = {
        "user": [438, 7, 438, None, 9],
        "city": ["Rome", "Oslo", None, "", "Bonn"],
        "slot": [0, 8, 3, None, 4],
        "price": [1.0, None, 3.0, 0.0, 9.0],
        "tags": [["a"], [], None, ["b", "a"], ["c"]],
        "hours": [[1.0], [], None, [2.0, 3.0], [5.0]],
    }
    return pd.DataFrame({name: columns.get(name, values) for name, values in good.items()})


@pytest.fixture(scope="module")
def model():
    return ctrlab.build("deepfm", OWN)


def test_missing_values_and_numbers_among_words(model, tmp_path):
    data.write(frame().assign(click=[0, 1, 0, 1, 0]), OWN, tmp_path / "rows.parquet", progress=False)
    wanted = of_file(model, tmp_path / "rows.parquet", 5)
    np.testing.assert_array_equal(score(model, frame()), wanted)
    assert len(np.unique(wanted)) == 5
    chunks = pa.concat_tables([pa.Table.from_pandas(frame()[i : i + 1]).cast(data.table(frame()).schema) for i in range(5)])
    np.testing.assert_array_equal(score(model, chunks), wanted)


def test_rows_without_lists_and_a_table_without_rows(model):
    wanted = score(model, frame(tags=[[]] * 5, hours=[[]] * 5))
    np.testing.assert_array_equal(score(model, frame(tags=[None] * 5, hours=[None] * 5)), wanted)
    for empty in (frame()[:0], pd.DataFrame(columns=frame().columns), {name: [] for name in frame().columns}):
        assert score(model, empty).shape == (0, 1)


@pytest.fixture
def traces(monkeypatch):
    """How often DeepFM's forward pass ran in Python: in a graph, once a trace."""
    ran, call = [], DeepFM.call
    monkeypatch.setattr(DeepFM, "call", lambda *a, **k: ran.append(1) or call(*a, **k))
    return ran


def test_a_model_is_traced_once_for_any_number_of_rows(traces, tmp_path):
    model = ctrlab.build("deepfm", OWN, "all")
    wanted = score(model, frame())
    for rows, batch_size in ((1, 4096), (5, 2), (3, 3)):
        np.testing.assert_allclose(score(model, frame()[:rows], batch_size), wanted[:rows], rtol=1e-6)
    assert len(traces) == 1
    model.weights[0].assign(model.weights[0] + 1.0)
    model.linear.weights[0].assign(model.linear.weights[0] + 1.0)
    assert np.all(score(model, frame()) != wanted) and len(traces) == 1
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "exported")
    after = len(traces)
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(score(again, frame()), score(model, frame()))
    assert len(traces) == after + 1


def test_scoring_computes_as_many_rows_at_once_as_training(monkeypatch):
    """The memory of a model that makes a multi-hot matrix grows by a megabyte per row: 4,096 rows at once took 20 GB."""
    model, given, made = ctrlab.build("deepfm", OWN), [], scoring.features_of
    monkeypatch.setattr(scoring, "features_of", lambda rows, schema: given.append(len(rows)) or made(rows, schema))
    rows = pd.concat([frame()] * 250, ignore_index=True)
    assert score(model, rows).shape == (len(rows), 1)
    assert given == [512, 512, len(rows) - 1024]


def test_evaluation_and_scores_share_what_was_traced(traces, tmp_path):
    model = compile_model(ctrlab.build("deepfm", OWN))
    data.write(frame().assign(click=[0, 1, 0, 1, 0]), OWN, tmp_path / "rows.parquet", progress=False)
    for passed in range(2):
        for rows, size in ((5, 4), (1, 2), (3, 5)):
            assert score(model, frame()[:rows]).shape == (rows, 1)
            assert evaluate(model, data.read(tmp_path / "rows.parquet", OWN, batch_size=size)).rows == 5
            assert passed or size == 5 or len(traces) == 1
        model.fit(data.read(tmp_path / "rows.parquet", OWN, batch_size=4), verbose=0)
        assert len(traces) == 2  # one of them is that of `fit`


def test_another_model_is_traced_anew(traces):
    model = ctrlab.build("deepfm", OWN)
    wanted = score(model, frame())
    other = ctrlab.build("deepfm", OWN, seed=1)
    found = score(other, frame())
    assert len(traces) == 2 and np.all(found != wanted)
    model.embedding = other.embedding
    assert np.all(score(model, frame()) != wanted) and len(traces) == 3
    model.rungs = frozenset({"indicator"})
    assert score(model, frame()).shape == wanted.shape and len(traces) == 4


def test_what_was_traced_goes_with_its_model():
    model = ctrlab.build("deepfm", OWN)
    score(model, frame())
    there = weakref.ref(model)
    del model
    gc.collect()
    assert there() is None


WITH_NAN = pa.Table.from_pandas(frame()).set_column(3, "price", pa.array([1.0, 2, float("nan"), 4, 5]))
BAD = {
    "a missing column": (frame().drop(columns="city"), "The table to score has no column 'city'"),
    "NaN": (
        WITH_NAN,
        "'price' .* row 2, counted from 0, has nan",
    ),
    "inf": (frame(price=[1, 2, 3, np.inf, 5]), "'price' must hold finite numbers.* row 3, counted from 0, has inf"),
    "text": (frame(price=list("abcde")), "'price' of own must be float; it is large_string"),
    "half an id": (frame(user=[1.5, 2, 3, 4, 5]), "'user' must be .*1.5"),
    "an id outside": (frame(slot=[1, 2, 3, 4, 9]), r"slot.*\[0, 9\)"),
    "a separator": (frame(tags=[["a;b"], [], [], [], []]), "can't hold its separator"),
    "no table": (3, "A table is"),
}


@pytest.mark.parametrize(("table", "said"), BAD.values(), ids=BAD)
def test_rows_that_are_refused(model, table, said):
    with pytest.raises(BadData, match=said) as caught:
        score(model, table)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("size", [0, 2.5, "a"])
def test_a_batch_size_that_is_no_whole_number_from_1_on(model, size):
    with pytest.raises(CtrlabError, match=f"`batch_size` must be a whole number .*; received {size!r}"):
        score(model, frame(), batch_size=size)


def test_a_model_without_a_schema():
    with pytest.raises(CtrlabError, match=r"one of the six models .*; received Sequential, which has none"):
        score(keras.Sequential([keras.layers.Dense(1)]), frame())
