"""AUC, log loss, GAUC and calibration, against their definitions written out user by user."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from ctrlab.errors import BadData, CtrlabError
from ctrlab.training import metrics
from ctrlab.training.metrics import calibration, gauc
from ctrlab.training.task_auc import TaskAUC


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


def test_a_soft_label_counts_as_that_share_of_clicks():
    """Ten views of each prediction with the label's share of clicks give the same AUC, log loss and calibration."""
    rng = np.random.default_rng(1)
    p, clicks = rng.random(40), rng.integers(0, 11, 40)
    views = np.repeat(p, 10)
    happened = (np.tile(np.arange(10), 40) < np.repeat(clicks, 10)).astype(float)
    soft = clicks / 10
    assert metrics.auc(p, soft) == pytest.approx(metrics.auc(views, happened), abs=1e-12)
    assert metrics.log_loss(p, soft) == pytest.approx(metrics.log_loss(views, happened), abs=1e-12)
    assert metrics.calibration(views, happened) == pytest.approx(metrics.calibration(p, soft), abs=1e-12)
    assert np.isnan(metrics.gauc(p, soft, np.zeros(40)))


def test_auc_of_hard_labels_and_of_one_class():
    p, y = np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1])
    assert metrics.auc(p, y) == 0.75
    assert np.isnan(metrics.auc(p, np.ones(4))) and np.isnan(metrics.auc(p, np.zeros(4)))
    assert 0 <= metrics.auc(p, np.full(4, 0.5)) == 0.5


NONE = np.zeros(0)
METRICS = [metrics.auc, metrics.log_loss, metrics.calibration, lambda p, y: gauc(p, y, np.zeros(len(p)))]
BAD = {
    "nan": ([0.1, np.nan], [0, 1], "Predictions must be finite; received nan"),
    "a label of 7": ([0.1, 0.2], [0, 7], "Labels must be numbers from 0 to 1; received 7"),
    "a label of nan": ([0.1, 0.2], [0, np.nan], "Labels must be numbers from 0 to 1; received nan"),
    "one label too many": ([0.1, 0.2], [0, 1, 1], r"received float64 \[2\] and int64 \[3\]"),
    "columns": ([[0.1], [0.2]], [[0], [1]], r"received float64 \[2, 1\] and int64 \[2, 1\]"),
    "words": ([0.1, 0.2], ["a", "b"], r"received float64 \[2\] and str"),
}


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("p", "y", "says"), BAD.values(), ids=BAD)
def test_what_no_metric_takes(metric, p, y, says):
    with pytest.raises(BadData, match=says):
        metric(np.array(p), np.array(y))


@pytest.mark.parametrize("metric", METRICS)
def test_no_examples_give_nan(metric):
    assert np.isnan(metric(NONE, NONE))


def test_what_one_metric_does_not_take():
    with pytest.raises(BadData, match=r"Probabilities must be in \[0, 1\]; received 1.5"):
        metrics.log_loss(np.array([0.5, 1.5]), np.array([0, 1]))
    with pytest.raises(BadData, match="received 3 users and 2 predictions"):
        gauc(np.array([0.5, 0.4]), np.array([0, 1]), np.arange(3))


def test_the_auc_of_a_task_in_fit():
    metric = TaskAUC(0)
    metric.update_state([0, 1, 0], [[0.0], [2.0], [-1.0]])
    assert float(metric.result()) == pytest.approx(1.0)
    with pytest.raises(BadData, match=r"auc takes column 3 of labels \[B, K\]; received labels \[2, 1\]"):
        TaskAUC(3).update_state([[0], [1]], [[0.0], [1.0]])
    for task in (-1, "buy", 0.5):
        with pytest.raises(CtrlabError, match="The column of a TaskAUC must be a whole number"):
            TaskAUC(task)
