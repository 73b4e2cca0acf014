"""The loop takes just the batches it trains on, and says in one sentence what cannot be trained or judged."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.errors import BadData, CtrlabError
from ctrlab.models import build
from ctrlab.schema import Categorical, Label, Numeric, Schema
from ctrlab.training import EarlyStopping, SeveralSteps, compile_model, evaluate, train, train_step

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


ROWS = 8
FEATURES = {"price": tf.range(ROWS, dtype=tf.float32), "user": tf.constant([f"u{i}" for i in range(ROWS)])}
ONE_LABEL = Schema("own", (Label("click"), Categorical("user", 50), Numeric("price")))
CLICKS = np.array([0, 1] * (ROWS // 2))
BAD_LABELS = {
    "7": (CLICKS * 7, "from 0 to 1, .*; received labels 7"),
    "nan": (CLICKS * np.nan, "from 0 to 1, .*; received labels nan"),
    "two columns": (np.stack([CLICKS] * 2, 1), r"Labels must be numbers \[B\] or \[B, 1\].*; received the shape (\[8, 2\]|8 2)"),
    "words": (CLICKS.astype(str), "received string: write 0 and 1"),
    "a dictionary": ({"click": CLICKS}, "received dict: pass one array"),
    "one too many": (np.append(CLICKS, 1), "received (9 labels and 8 rows|.*, y 9)"),
    "one for all": (np.ones((1, 1)), "received (1 labels and 8 rows|.*, y 1)"),
}


@pytest.fixture(scope="module")
def model():
    return compile_model(build("dlrm", ONE_LABEL, size="small"))


def one_line(caught):
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("labels", "says"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_labels_that_are_refused_however_they_come(model, labels, says):
    given = labels if isinstance(labels, dict) else tf.constant(labels)
    for take in (
        lambda: evaluate(model, [(FEATURES, given)]),
        lambda: train(model, model.optimizer, [(FEATURES, given)]),
        lambda: model.train_on_batch(FEATURES, given),
        lambda: model.test_on_batch(FEATURES, given),
    ):
        with pytest.raises(BadData, match=says) as caught:
            take()
        one_line(caught)
    assert int(model.optimizer.iterations) == 0


def test_a_number_of_labels_that_only_the_step_knows(model):
    spec = {"price": tf.TensorSpec([None]), "user": tf.TensorSpec([None], tf.string)}, tf.TensorSpec([None, 1])
    batches = tf.data.Dataset.from_generator(lambda: iter([(FEATURES, tf.ones([1, 1]))]), output_signature=spec)
    for take in (
        lambda: evaluate(model, batches),
        lambda: train(model, model.optimizer, batches),
        lambda: train(model, model.optimizer, batches, step=SeveralSteps(train_step(model, model.optimizer))),
        lambda: model.fit(batches, verbose=0),
        lambda: model.evaluate(batches, verbose=0),
    ):
        with pytest.raises(BadData, match="received 1 labels and 8 rows") as caught:
            take()
        one_line(caught)
    assert int(model.optimizer.iterations) == 0


@pytest.mark.parametrize("labels", [CLICKS, CLICKS.tolist(), CLICKS.astype(bool)[:, None], CLICKS.astype("f8")])
def test_labels_of_one_task_of_any_kind(model, labels):
    found = evaluate(model, [(FEATURES, labels)])
    assert found == evaluate(model, [(FEATURES, tf.constant(CLICKS[:, None], tf.float32))]) and found.rows == ROWS


@pytest.mark.parametrize("batch", [FEATURES, (FEATURES,), (FEATURES, CLICKS, CLICKS), 3])
def test_what_is_no_batch(model, batch):
    for take in (lambda: evaluate(model, [batch]), lambda: train(model, model.optimizer, [batch])):
        with pytest.raises(BadData, match=r"A batch must be a pair \(features, labels\); received"):
            take()


@pytest.mark.parametrize("steps", ["3", 2.5, -1])
def test_steps_that_are_no_number(steps):
    with pytest.raises(CtrlabError, match=f"`steps` must be a whole number .*; received {steps!r}"):
        train(MODEL, None, [BATCH], steps=steps, step=lambda *_: 0.5)


X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype("f4")


def of_keras(outputs, optimizer="sgd"):
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(outputs)])
    made.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True))
    return made


@pytest.mark.parametrize("labels", [CLICKS, CLICKS[:, None].astype("f4")])
def test_another_keras_model_is_trained_and_judged(labels):
    own = of_keras(1)
    stopping = EarlyStopping([(X, labels)])
    assert len(train(own, own.optimizer, [(X, labels)] * 2).losses) == 2
    own.fit(X, CLICKS[:, None], epochs=2, callbacks=[stopping], verbose=0)
    found = evaluate(own, [(X, labels)])
    assert set(found.auc) == {"label"} and found.gauc == {} and found == stopping.evaluations[stopping.best]
    assert found.log_loss["label"] == pytest.approx(own.evaluate(X, CLICKS[:, None], verbose=0), rel=1e-5)
    assert set(evaluate(of_keras(2), [(X, np.stack([CLICKS] * 2, 1))]).auc) == {"label_0", "label_1"}


def test_another_keras_model_without_logits_of_rows_and_tasks():
    own = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1), keras.layers.Flatten(), keras.layers.Reshape((1, 1))])
    for take in (lambda: evaluate(own, [(X, CLICKS)]), lambda: train(own, keras.optimizers.SGD(), [(X, CLICKS)])):
        with pytest.raises(BadData, match=r"must give logits \[B, K\], .* gives \[8, 1, 1\]"):
            take()
