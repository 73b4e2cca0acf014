"""The loop takes just the batches it trains on, and says in one sentence what cannot be trained or judged."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.errors import BadData
from ctrlab.training import evaluate, train

MODEL = SimpleNamespace(name="model", tasks=("click",), users=lambda features: None)
BATCH = ({}, tf.constant([[1.0], [0.0]]))


def test_no_batch_is_taken_that_is_not_trained_on():
    batches = iter([BATCH] * 5)
    assert train(MODEL, None, batches, steps=3, step=lambda *_: 0.5).losses == [0.5] * 3
    assert len(list(batches)) == 2


@pytest.mark.parametrize(
    ("batches", "loss", "says"), [([], 0.5, "at least one batch"), ([BATCH], np.nan, "received nan from step 0 of model")]
)
def test_what_cannot_be_trained(batches, loss, says):
    with pytest.raises(BadData, match=says):
        train(MODEL, None, batches, step=lambda *_: loss)


def test_auc_and_log_loss_over_all_batches():
    found = evaluate(MODEL, [BATCH, BATCH], lambda _: tf.constant([[0.8], [0.4]]))
    assert found.auc == {"click": 1.0} and found.rows == 4
    assert found.log_loss["click"] == pytest.approx(-(np.log(0.8) + np.log(0.6)) / 2)


def test_one_class_alone_has_no_auc():
    assert np.isnan(evaluate(MODEL, [({}, tf.ones((2, 1)))], lambda _: tf.constant([[0.8], [0.4]])).auc["click"])


@pytest.mark.parametrize(("batches", "says"), [([], "at least one batch"), ([BATCH], "must be finite")])
def test_what_cannot_be_judged(batches, says):
    with pytest.raises(BadData, match=says):
        evaluate(MODEL, batches, lambda _: tf.constant([[np.nan], [0.4]]))
