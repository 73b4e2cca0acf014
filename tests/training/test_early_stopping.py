"""A training ends when held-out rows no longer gain, in the state that was best on them."""

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from ctrlab import data
from ctrlab.errors import BadData, CtrlabError
from ctrlab.models import build
from ctrlab.schema import Categorical, Label, Numeric, Schema
from ctrlab.training import EarlyStopping, compile_model, early_stopping, evaluate, get_state
from ctrlab.training.loop import Evaluation

SCHEMA = Schema("own", (Label("clicked"), Categorical("user", 1_000), Numeric("price")), wide=("user",))


def rows(count: int, seed: int) -> pa.Table:
    """Labels that depend on the price alone, weakly: users are learned by heart soon, which is of no use for others."""
    draw = np.random.default_rng(seed)
    price = draw.normal(size=count)
    clicked = draw.random(count) < 1 / (1 + np.exp(-price))
    users = draw.integers(0, 300, count).astype(str)
    return pa.table({"clicked": clicked.astype(np.float32), "user": users, "price": price.astype(np.float32)})


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for seed, (name, count) in enumerate({"train": 400, "validation": 400}.items()):
        data.write(rows(count, seed), SCHEMA, folder / f"{name}.parquet")
    train = data.read(folder / "train.parquet", SCHEMA, batch_size=50, shuffle=400, seed=1)
    return train, data.read(folder / "validation.parquet", SCHEMA, batch_size=400)


class States(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.states, self.rows = [], []

    def on_epoch_end(self, epoch, logs=None):
        self.states.append(get_state(self.model, self.model.optimizer))
        self.rows.append([v.stats().rows for layer in self.model.layers for v in getattr(layer, "growing", {}).values()])


@pytest.mark.parametrize("embedding", ["hashed", "variable"])
@pytest.mark.parametrize("monitor", ["auc", "log_loss"])
def test_the_best_epoch_is_restored_whole(batches, embedding, monitor):
    train, validation = batches
    schema = SCHEMA if embedding == "hashed" else Schema("own", (Label("clicked"), Categorical("user"), Numeric("price")))
    model = compile_model(build("dlrm", schema, "all", size="small", embedding=embedding))
    states, stopping = States(), EarlyStopping(validation, patience=3, monitor=monitor)
    history = model.fit(train, epochs=50, callbacks=[states, stopping], verbose=0)
    assert stopping.best + 1 + 3 == len(stopping.evaluations) == len(history.epoch) < 50
    best = stopping.evaluations[stopping.best]
    assert evaluate(model, validation) == best
    found = get_state(model, model.optimizer)
    assert all(np.array_equal(found[path], value) for path, value in states.states[stopping.best].items())
    assert any(not np.array_equal(found[path], value) for path, value in states.states[-1].items())
    assert history.history[f"val_{monitor}"][stopping.best] == getattr(best, monitor)["clicked"]


def test_rows_that_came_after_the_best_epoch_are_gone(batches):
    """The first epoch is best by force; the second has other users."""
    _, validation = batches
    schema = Schema("own", (Label("clicked"), Categorical("user"), Numeric("price")))
    model = compile_model(build("dlrm", schema, "all", size="small", embedding="variable"))
    [variable] = model.embedding.growing.values()
    stopping = EarlyStopping(validation)
    stopping.begin(model, model.optimizer)
    features, labels = next(iter(validation))
    model.train_on_batch(features, labels)
    stopping.look()
    before = variable.stats().rows
    model.train_on_batch(features | {"user": features["user"] + "x"}, labels)
    assert variable.stats().rows > before
    stopping.restore()
    assert variable.stats().rows == before


def test_bad_arguments_and_rows_of_one_class_are_refused(batches):
    train, validation = batches
    for patience in (0, "3", None, np.nan, 2.5, np.inf, True):
        with pytest.raises(CtrlabError, match=f"patience is a number of epochs .*; received {patience!r}"):
            EarlyStopping(validation, patience=patience)
    for given in (None, "validation.parquet", lambda: validation):
        with pytest.raises(CtrlabError, match=r"validation is batches .*: give a Dataset"):
            EarlyStopping(given)
    for given in (iter(validation), iter([]), (batch for batch in validation)):
        with pytest.raises(CtrlabError, match="which can be read once only: give a Dataset or a list"):
            EarlyStopping(given)
    with pytest.raises(CtrlabError, match="loss"):
        EarlyStopping(validation, monitor="loss")
    of_one_class = validation.map(lambda features, labels: (features, labels * 0))
    model = compile_model(build("dlrm", SCHEMA, size="small"))
    with pytest.raises(BadData, match="AUC needs validation rows of both classes"):
        model.fit(train, epochs=1, callbacks=[EarlyStopping(of_one_class)], verbose=0)


@pytest.mark.parametrize(
    ("epochs", "warned"),
    [
        ([(0.74, 0.36), (0.75, 0.72)], "Epoch 2 is kept for its AUC, but its log loss of 'clicked' is 0.72; epoch 1 had 0.36."),
        ([(0.74, 0.0021), (0.75, 0.0024)], "is 0.0024; epoch 1 had 0.0021."),
        ([(0.74, 0.36), (0.75, 0.37)], ""),
        ([(0.48, 0.69), (0.52, 0.69)], "hardly learned 'clicked': the AUC on the validation rows was at most 0.520"),
        ([(0.48, 0.69), (0.55, 0.69)], ""),
        ([(np.nan, 0.69), (np.nan, 0.68)], ""),
    ],
)
def test_what_the_best_epoch_does_not_tell_is_said(epochs, warned, monkeypatch, caplog):
    found = iter([Evaluation({"clicked": auc}, {"clicked": loss}, {}, {}, 400) for auc, loss in epochs])
    monkeypatch.setattr(early_stopping, "evaluate", lambda *_: next(found))
    model = compile_model(build("wdl", SCHEMA, size="few_rows"))
    stopping = EarlyStopping([({}, [0, 1])], monitor="log_loss" if np.isnan(epochs[0][0]) else "auc")
    stopping.begin(model, model.optimizer)
    for _ in epochs:
        stopping.look()
    stopping.restore()
    assert warned in caplog.text and len(caplog.messages) == bool(warned)


def test_a_label_is_not_hidden_by_the_mean_of_all(monkeypatch, caplog):
    """The mean log loss rises by 3 %, that of the rare label is doubled."""
    aucs = {"click": 0.7, "buy": 0.7}, {"click": 0.7, "buy": 0.8}
    losses = {"click": 0.69, "buy": 0.02}, {"click": 0.69, "buy": 0.04}
    found = iter([Evaluation(*each, {}, {}, 400) for each in zip(aucs, losses)])
    monkeypatch.setattr(early_stopping, "evaluate", lambda *_: next(found))
    model = compile_model(build("wdl", SCHEMA, size="few_rows"))
    stopping = EarlyStopping([])
    stopping.begin(model, model.optimizer)
    stopping.look()
    stopping.look()
    stopping.restore()
    [said] = caplog.messages
    assert "its log loss of 'buy' is 0.04; epoch 1 had 0.02." in said


@pytest.mark.parametrize(("most", "warned"), [(0.505, True), (0.508, False)])
def test_soft_labels_are_held_to_what_they_allow(most, warned, monkeypatch, caplog):
    """Labels of 0.4 and 0.6 allow an AUC of 0.6, so 0.508 is as far as 0.54 of labels 0 and 1."""
    labels = np.array([[0.4], [0.6]] * 50, np.float32)
    assert early_stopping.auc(labels[:, 0], labels[:, 0]) == pytest.approx(0.6)
    found = Evaluation({"clicked": most}, {"clicked": 0.69}, {}, {}, 100)
    monkeypatch.setattr(early_stopping, "evaluate", lambda *_: found)
    model = compile_model(build("wdl", SCHEMA, size="few_rows"))
    stopping = EarlyStopping([({}, tf.constant(labels)), ({}, labels[:1, 0])])
    stopping.begin(model, model.optimizer)
    stopping.look()
    stopping.restore()
    assert bool(caplog.messages) == warned


def test_keras_s_own_callbacks_find_the_metrics(batches):
    train, validation = batches
    theirs = keras.callbacks.EarlyStopping("val_auc", patience=1)
    rate = keras.callbacks.ReduceLROnPlateau("val_log_loss", mode="min", patience=1)
    model = compile_model(build("dlrm", SCHEMA, "all", size="small"))
    stopping = EarlyStopping(validation, patience=99)
    history = model.fit(train, epochs=20, callbacks=[stopping, theirs, rate], verbose=0)
    found = [each.auc["clicked"] for each in stopping.evaluations]
    assert theirs.best == max(found) and theirs.stopped_epoch == len(history.epoch) - 1 == int(np.argmax(found)) + 1
    assert rate.best == min(each.log_loss["clicked"] for each in stopping.evaluations)


def test_a_resumed_training_begins_anew(batches):
    train, validation = batches
    model = compile_model(build("dlrm", SCHEMA, "all", size="small"))
    stopping = EarlyStopping(validation, patience=1)
    model.fit(train, epochs=1, callbacks=[stopping], verbose=0)
    history = model.fit(train, initial_epoch=1, epochs=20, callbacks=[stopping], verbose=0)
    assert len(stopping.evaluations) == len(history.epoch) == stopping.best + 2
    assert evaluate(model, validation) == stopping.evaluations[stopping.best]


def test_a_saved_and_loaded_model_trains_on_as_it_would_have(batches, tmp_path):
    train, validation = batches[0].cache(), batches[1]  # in one order
    model = compile_model(build("dlrm", SCHEMA, "all", size="small"))
    model.fit(train, epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    found = []
    for each in model, keras.models.load_model(tmp_path / "model.keras"):
        stopping = EarlyStopping(validation)
        each.fit(train, epochs=2, callbacks=[stopping], verbose=0)
        found.append([e.auc["clicked"] for e in stopping.evaluations])
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_a_model_that_can_not_learn_says_so(tmp_path, caplog):
    draw = np.random.default_rng(1)
    clicked, users = draw.integers(0, 2, 4_000), draw.integers(0, 9, 4_000).astype(str)
    data.write(pa.table({"clicked": clicked, "user": users, "price": np.ones(4_000)}), SCHEMA, tmp_path / "rows.parquet")
    batches = data.read(tmp_path / "rows.parquet", SCHEMA, batch_size=2_000)
    compile_model(build("wdl", SCHEMA, size="small")).fit(batches, epochs=1, callbacks=[EarlyStopping(batches)], verbose=0)
    assert "The model has hardly learned 'clicked'" in caplog.text
