"""A storage's folder is free once its variable is closed or gone, whatever was done with it before."""

import contextlib
import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import ctrlab
from ctrlab.embedding import Embedding, EmbeddingVariable, Options, Storage, close, embedding_variables
from ctrlab.embedding.choices import Variable
from ctrlab.errors import CtrlabError
from ctrlab.training import Checkpoints, TouchedRows, compile_model, make_optimizer, train

KEYS = np.random.default_rng(0).integers(-50, 50, (64, 3))
BATCHES = [(tf.constant(keys), tf.ones([8, 1])) for keys in KEYS.reshape(8, 8, 3)]


class Stop(Exception):
    pass


class StopsLate(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            raise Stop


def own_model(folder, name="items"):
    keys = keras.Input((3,), dtype="int64")
    rows = Embedding(4, combiner="rows", options=Options(storage=Storage(str(folder), 10)), name=name)(keys)
    model = keras.Model(keys, keras.layers.Dense(1)(keras.layers.Flatten()(rows)))
    model.compile(TouchedRows("adam_async", 0.1), loss="mse")
    return model


def fit(model):
    model.fit(KEYS, np.ones(64), batch_size=8, epochs=2, verbose=0)
    model.predict(KEYS, verbose=0)


def fit_eagerly(model):
    model.run_eagerly = True
    fit(model)


def fit_that_fails(model):
    with contextlib.suppress(Stop):
        model.fit(KEYS, np.ones(64), batch_size=8, verbose=0, callbacks=[StopsLate()])


def our_loop(model):
    train(model, model.optimizer, BATCHES)


def our_loop_that_fails(model):
    def stop(number, loss):
        if number == 5:
            raise Stop

    with contextlib.suppress(Stop):
        train(model, model.optimizer, BATCHES, on_step=stop)


USES = [fit, fit_eagerly, fit_that_fails, our_loop, our_loop_that_fails]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_nothing_keeps_a_model_that_is_gone(tmp_path, use):
    def used():
        model = own_model(tmp_path)
        use(model)
        (table,) = embedding_variables(model)
        assert table.stats().rows_below > 0
        return weakref.ref(model), weakref.ref(table), weakref.ref(model.optimizer)

    refs = used()
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3
    assert list((tmp_path / "items").glob("[0-9]*")) == []


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_the_next_model_takes_the_folder_of_one_that_is_gone(tmp_path, use):
    """As in a notebook whose cell is run again: Python has not collected the first model when the second one begins."""
    gc.disable()
    try:
        for _ in range(3):
            model = own_model(tmp_path)
            use(model)
            assert embedding_variables(model)[0].stats().rows_below > 0
    finally:
        gc.enable()


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_a_closed_model_frees_the_folder_while_it_lives(tmp_path, use):
    first = own_model(tmp_path)
    use(first)
    with pytest.raises(CtrlabError, match=r"variable items: .*open: close\(\)"):
        own_model(tmp_path).optimizer.build(own_model(tmp_path).trainable_variables)
    close(first)
    close(first)
    assert list((tmp_path / "items").glob("[0-9]*")) == []
    fit(own_model(tmp_path))


def test_a_closed_variable_is_refused_in_one_sentence(tmp_path):
    model = own_model(tmp_path)
    fit(model)
    (table,) = embedding_variables(model)
    close(model)
    closed = r"^Embedding variable items is closed, and its rows are gone: load or build its model again\.$"
    for act in (
        table.stats,
        table.state,
        table.stage,
        table.keys_below,
        lambda: table.cut("server"),
        lambda: table.set_slots({}),
        lambda: table.prefetch(tf.constant([1], tf.int64)),
        lambda: table.load_state(
            ctrlab.embedding.TableState(np.zeros(0, "i8"), np.zeros((0, 4), "f4"), {}, *[np.zeros(0, "i8")] * 2)
        ),
        model.get_weights,
        lambda: model(KEYS),
        lambda: table.lookup(KEYS),
        lambda: table.slot_names,
        lambda: model.save(tmp_path / "m.keras"),
    ):
        with pytest.raises(CtrlabError, match=closed):
            act()
    for act in (lambda: model.predict(KEYS, verbose=0), lambda: fit(model)):
        with pytest.raises((CtrlabError, tf.errors.OpError), match="items is closed"):
            act()
    table.forget("server")


def test_with_blocks(tmp_path):
    options = Options(storage=Storage(str(tmp_path), 10))
    for _ in range(2):
        with EmbeddingVariable("items", 4, options) as variable:
            variable.set_slots({})
            variable.open_storage()
        with pytest.raises(CtrlabError, match="is closed"):
            variable.stats()
        with Embedding(4, options=options, name="items") as layer:
            layer.tables["items"].open_storage()


def test_a_model_of_ours(tmp_path, small_batches):
    schema, batches = small_batches("criteo")
    choice = {"C1": Variable(Options(storage=Storage(str(tmp_path / "rows"), 10)))}
    for n, use in enumerate(
        (lambda m, o: train(m, o, batches), lambda m, o: compile_model(m, o).fit((b for b in batches), verbose=0))
    ):
        with ctrlab.build("dlrm", schema, "all", embedding=choice) as model:
            optimizer = make_optimizer(model)
            with Checkpoints(tmp_path / f"saves{n}", model, optimizer, every=1):
                use(model, optimizer)
            used = [table for table in embedding_variables(model) if table.stats().rows_below]
            assert used
        with pytest.raises(CtrlabError, match="is closed"):
            used[0].stats()


def test_closing_before_the_checkpoints_loses_none(tmp_path, small_batches):
    schema, batches = small_batches("criteo")
    choice = {"C1": Variable(Options(storage=Storage(str(tmp_path / "rows"), 10)))}
    model = ctrlab.build("dlrm", schema, embedding=choice)
    optimizer = make_optimizer(model)
    with Checkpoints(tmp_path / "saves", model, optimizer, every=1, asynchronous=False) as checkpoints:
        train(model, optimizer, batches, on_step=checkpoints)
        model.close()
    model = ctrlab.build("dlrm", schema, embedding=choice)
    with Checkpoints(tmp_path / "saves", model, make_optimizer(model), resume=True) as checkpoints:
        assert checkpoints.restored.step == len(batches)


@pytest.mark.parametrize("where", ["/proc/x", "a file", "files of others"])
def test_a_folder_that_can_hold_no_storage_is_refused_before_the_first_step(tmp_path, where):
    folder = tmp_path / "rows"
    if where == "a file":
        folder.write_text("mine")
    elif where == "files of others":
        (folder / "items").mkdir(parents=True)
        (folder / "items" / "notes.txt").write_text("mine")
    else:
        folder = where
    model = own_model(folder)
    with pytest.raises(CtrlabError, match=r"^Embedding variable items: [^\n]*: name another folder\.$"):
        model.fit(KEYS, np.ones(64), verbose=0)
    with pytest.raises(CtrlabError, match=r"^Embedding variable items: [^\n]*: name another folder\.$"):
        train(own_model(folder), TouchedRows("sgd", 0.1), BATCHES)
    assert where != "files of others" or (folder / "items" / "notes.txt").read_text() == "mine"
