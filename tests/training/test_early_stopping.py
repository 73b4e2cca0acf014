"""A training ends when held-out rows no longer gain, in the state that was best on them."""

import keras
import numpy as np
import pyarrow as pa
import pytest

from ctrlab import data
from ctrlab.errors import BadData, CtrlabError
from ctrlab.models import build
from ctrlab.schema import Categorical, Label, Numeric, Schema
from ctrlab.training import EarlyStopping, compile_model, evaluate, get_state

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
