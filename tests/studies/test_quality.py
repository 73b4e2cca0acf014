"""The simple models that ours are compared with: they find what they can, and no more."""

import numpy as np
import pyarrow as pa
import pytest

from ctrlab import data
from ctrlab.models import MODELS
from ctrlab.schema import Categorical, Label, Numeric, NumericList, Schema, Sequence
from studies.quality import bench as quality
from studies.quality import classic

ITEM = {"buckets": 100, "table": "item"}
SCHEMA = Schema(
    "own",
    (
        Label("y"),
        Categorical("item", **ITEM),
        Sequence("past", of="item", **ITEM),
        Sequence("others", of="item", negative_of="past", **ITEM),
        Numeric("x"),
        NumericList("xs"),
    ),
)


def rows(y, item=None, x=None, past=None) -> pa.Table:
    n = len(y)
    item = ["a"] * n if item is None else item
    columns = {"y": pa.array(y, pa.float32()), "item": pa.array(item, pa.string()).dictionary_encode()}
    columns["past"] = pa.array(past or [[]] * n, pa.list_(pa.string()))
    columns["others"] = pa.array([[str(label)] for label in y], pa.list_(pa.string()))  # must not be looked at
    columns["x"] = pa.array([1.0] * n if x is None else x, pa.float32())
    return pa.table(columns | {"xs": pa.array([[]] * n, pa.list_(pa.float32()))})


def auc(make, fit: pa.Table, test: pa.Table) -> float:
    model, encode = make(SCHEMA, "y", fit, fit)
    return classic.quality(classic.labels(test, "y"), model.predict_proba(encode(test))[:, 1])["auc"]


Y = np.random.default_rng(0).integers(0, 2, 400)


@pytest.mark.parametrize("make", [classic.logistic, classic.boosting])
@pytest.mark.parametrize(
    "columns",
    [
        {"item": [f"item {y} {i % 5}" for i, y in enumerate(Y)]},
        {"x": [None if y else float(i) for i, y in enumerate(Y)]},
        {"x": [i % 7 + 20.0 if y else i % 7 + 40.0 * (i % 2) for i, y in enumerate(Y)]},
        {"item": ["a", "b"] * 200, "past": [["ab"[i % 2]] if y else ["c", "c"] for i, y in enumerate(Y)]},
    ],
    ids=["an id", "a missing number", "a number with a curve", "a history"],
)
def test_what_depends_on_one_column_is_found(make, columns):
    table = rows(Y, **columns)
    assert auc(make, table, table) > 0.95


@pytest.mark.parametrize("make", [classic.logistic, classic.boosting])
def test_rows_without_information_give_one_half(make):
    """This shows that neither the label nor the negatives, which are made from it here, are among the columns."""
    assert auc(make, rows(Y), rows(Y)) == 0.5


def test_words_numbers_and_lists_that_were_never_seen_are_no_problem():
    fit = rows(Y, item=[f"{i % 9}" for i in range(400)], x=[float(i) for i in range(400)])
    test = rows([0, 1], item=["new", None], x=[-1e9, None], past=[["new"], None])
    for make in (classic.logistic, classic.boosting):
        model, encode = make(SCHEMA, "y", fit, fit)
        assert np.isfinite(model.predict_proba(encode(test))).all()


@pytest.mark.long
def test_a_data_set_gets_a_row_a_model(monkeypatch):
    monkeypatch.setenv("CTRLAB_PROFILE", "tiny")
    monkeypatch.setattr(quality, "EPOCHS", 1)
    found = list(quality.compare("census_income", ["deepfm"], 2, "generated"))
    assert [row.model for row in found] == [*quality.CLASSIC, quality.PLAIN, "deepfm"]
    for row in found:
        seeds = 1 if row.model in quality.CLASSIC else 2
        assert list(row.auc) == list(row.log_loss) == ["never_married", "income_50k"]
        assert all(len(aucs) == seeds and 0 < min(aucs) <= max(aucs) < 1 for aucs in row.auc.values()), row
        assert row.epochs == ([] if seeds == 1 else [1, 1])
        if row.model in quality.CLASSIC:
            assert min(row.auc["never_married"]) > 0.7, row
        assert row.median("income_50k") == pytest.approx(np.median(row.auc["income_50k"]))


def test_all_are_those_models_that_can_use_the_data_set():
    def usable(name):
        return quality._usable(data.prepare(name, profile="tiny"))

    assert usable("census_income") == ["wdl", "deepfm", "dlrm", "mmoe"]
    assert usable("rees46") == list(MODELS)
