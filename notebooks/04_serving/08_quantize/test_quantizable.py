"""The cost of fewer bits is a difference of metrics over the same slices of rows."""

import numpy as np
import pytest
from ctrlab.lessons.topics.quantize import quantizable
from ctrlab.lessons.topics.quantize.quantizable import Cost, Quantizable, per_slice

from ctrlab import profiles
from ctrlab.training.metrics import auc


def test_costs_are_differences_over_slices():
    rng = np.random.default_rng(0)
    labels = (rng.random(8_000) < 0.3).astype(np.float32)
    scores = np.clip(0.3 + 0.2 * (labels - 0.3) + 0.1 * rng.standard_normal(8_000), 0.01, 0.99)
    same, higher = Cost.of(scores, scores, labels), Cost.of(scores, 1.1 * scores, labels)
    assert (same.auc.low, same.auc.high, same.calibration.median, same.largest) == (0, 0, 0, 0)
    assert higher.auc.high == pytest.approx(0, abs=1e-12) and higher.largest == pytest.approx(0.1 * scores.max())
    assert higher.calibration.low < 0.1 * scores.mean() / labels.mean() < higher.calibration.high
    noisy = Cost.of(scores, scores + 0.3 * rng.standard_normal(8_000), labels)
    assert noisy.auc.high < -0.05 and "AUC -0." in str(noisy)


def test_slices_with_labels_of_one_class_are_left_out():
    labels = np.eye(1, 40)[0]
    assert per_slice(auc, np.linspace(1, 0, 40), labels) == [1.0]
    assert Cost.of(labels, labels, labels).auc.median == 0


def test_a_model_of_several_tasks_gets_its_tables_back():
    model, files = quantizable.made("mmoe", profiles.PROFILES["tiny"])
    quantizable.train_once(model, files)
    trained = Quantizable(model, files)
    before = trained.scores()
    assert before.shape == trained.labels.shape == (files.test_rows, len(model.tasks))
    assert {table.shape[1] for table in trained.tables.values()} == {16}
    with pytest.raises(RuntimeError), trained.changed(lambda name, rows: 0 * rows):
        assert (abs(trained.scores() - before).max(axis=0) > 1e-3).all()
        raise RuntimeError
    np.testing.assert_array_equal(trained.scores(), before)
