"""The table of quality in docs/own_data.md has the figures that were recorded, and what it says of them holds."""

import json

import numpy as np
import pytest
from pages import PAGES, ROOT

ROWS = json.loads((ROOT / "data" / "measurements" / "quality.json").read_text())
COLUMNS = (
    ("criteo", "label"),
    ("census_income", "income_50k"),
    ("census_income", "never_married"),
    ("rees46", "label"),
    ("amazon_reviews", "label"),
)
AUC = {(row["model"], row["data_set"], label): np.median(auc) for row in ROWS for label, auc in row["auc"].items()}
OURS = sorted({row["model"] for row in ROWS if row["epochs"] and " " not in row["model"]})


def line(model: str) -> str:
    found = (AUC.get((model, *column)) for column in COLUMNS)
    return f"| {model} | " + " | ".join("" if auc is None else f"{auc:.4f}"[1:] for auc in found) + " |"


@pytest.mark.parametrize("model", dict.fromkeys(row["model"] for row in ROWS))
def test_the_table_has_what_was_recorded(model):
    assert line(model) in PAGES["docs/own_data.md"].read_text().splitlines()


SHORT = {("dlrm", "criteo"), ("mmoe", "criteo")}
"""Models that stay more than the limit below logistic regression."""


@pytest.mark.parametrize("model, column", [(m, c) for m in OURS for c in COLUMNS if (m, *c) in AUC])
def test_a_model_is_level_with_logistic_regression_but_for_those_that_are_said_to_be_short(model, column):
    below = AUC["logistic regression", *column] - AUC[model, *column]
    assert (below > 0.003) == ((model, column[0]) in SHORT), below


def test_models_were_trained_three_times():
    assert {len(auc) for row in ROWS if row["epochs"] for auc in row["auc"].values()} == {3}
