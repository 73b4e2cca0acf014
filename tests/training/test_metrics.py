"""GAUC and calibration, against their definitions written out user by user."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from ctrlab.training.metrics import calibration, gauc


def by_hand(p, y, users):
    total = rows = 0.0
    for user in sorted(set(users)):
        mine = users == user
        if len(set(y[mine])) == 2:
            total, rows = total + mine.sum() * roc_auc_score(y[mine], p[mine]), rows + mine.sum()
    return total / rows if rows else float("nan")


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=60))
def test_gauc_is_the_mean_of_the_users_aucs_by_rows(rows):
    p, y, users = (np.array(column) for column in zip(*rows))  # few predictions: many ties
    found, expected = gauc(p / 4, y, users), by_hand(p / 4, y, users)
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_gauc_does_not_see_who_clicks_much():
    rng = np.random.default_rng(0)
    users = rng.integers(0, 50, 5_000)
    eager = rng.random(50)
    y = (rng.random(5_000) < eager[users]).astype(int)
    assert roc_auc_score(y, eager[users]) > 0.7 and gauc(eager[users], y, users) == 0.5


def test_users_may_be_words():
    users = np.array([b"anna", b"anna", b"ben"])
    assert gauc(np.array([0.2, 0.4, 0.9]), np.array([0, 1, 0]), users) == 1.0


def test_calibration():
    p, y = np.array([0.5, 0.5, 0.5]), np.array([1.0, 0.0, 0.0])
    assert calibration(p, y) == 1.5 and np.isnan(calibration(p, 0 * y))
