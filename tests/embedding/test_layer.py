"""The Keras layer: what it computes, in `fit`, and through every way of saving a model."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import (
    BloomFilter,
    CounterFilter,
    Embedding,
    GlobalStepEviction,
    Initializer,
    L2Eviction,
    Options,
    embedding_variables,
    variable,
)
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.training import TouchedRows, get_state, set_state

RNG = np.random.default_rng(0)
KEYS = RNG.integers(-50, 50, (256, 3))
LABELS = (KEYS.sum(1) > 0).astype(np.float32)


def network(combiner="rows", **more):
    keys = keras.Input((3,), dtype="int64")
    rows = Embedding(4, combiner=combiner, **more)(keys)
    return keras.Model(keys, keras.layers.Dense(1)(keras.layers.Flatten()(rows)))


@pytest.fixture(scope="module")
def trained():
    model = network(options=Options(Initializer.glorot_uniform(1, 4), CounterFilter(2), GlobalStepEviction(100)))
    model.compile(TouchedRows("adam_async", 0.1), loss=keras.losses.BinaryCrossentropy(from_logits=True))
    losses = model.fit(KEYS, LABELS, epochs=6, batch_size=32, verbose=0).history["loss"]
    assert losses[-1] < 0.3 * losses[0]
    return model


@pytest.fixture(scope="module")
def answers(trained):
    return trained.predict(KEYS, verbose=0)


def state_of(model):
    (table,) = embedding_variables(model)
    state = table.state()
    order = np.argsort(state.keys)
    return {n: a[order] for n, a in {"keys": state.keys, "values": state.values, "steps": state.steps, **state.slots}.items()}


def assert_same_state(model, other):
    found, expected = state_of(model), state_of(other)
    assert list(found) == list(expected) and len(found["keys"]) > 50
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_keras_file_holds_the_table_and_its_slots_and_goes_on(trained, answers, tmp_path):
    trained.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(KEYS, verbose=0), answers)
    assert_same_state(loaded, trained)
    before = embedding_variables(loaded)[0].state().steps.max()
    loaded.fit(KEYS, LABELS, batch_size=32, verbose=0)
    assert embedding_variables(loaded)[0].state().steps.max() == before + 8
    assert embedding_variables(loaded)[0].options == embedding_variables(trained)[0].options


def test_weights_alone(trained, answers, tmp_path):
    trained.save_weights(tmp_path / "w.weights.h5")
    other = keras.Model.from_config(trained.get_config())
    other.load_weights(tmp_path / "w.weights.h5")
    np.testing.assert_array_equal(other.predict(KEYS, verbose=0), answers)
    assert_same_state(other, trained)


WAYS = {
    ".keras": lambda model, folder: model.save(folder / "model.keras"),
    "weights": lambda model, folder: model.save_weights(folder / "w.weights.h5"),
    "SavedModel": lambda model, folder: tf.saved_model.save(model, str(folder / "saved")),
    "export": lambda model, folder: model.export(folder / "exported", verbose=False),
    "tf.train.Checkpoint": lambda model, folder: tf.train.Checkpoint(model).write(str(folder / "checkpoint")),
}


@pytest.mark.parametrize("admission", [CounterFilter(2), BloomFilter(2, expected_keys=1_000)], ids=["candidates", "filter"])
@pytest.mark.parametrize("save", WAYS.values(), ids=WAYS)
def test_a_table_too_large_for_one_piece_is_refused(tmp_path, monkeypatch, save, admission):
    """The limit of 4 GB is set here to one byte less than the table has."""
    trained = network(options=Options(admission=admission))
    trained.compile(TouchedRows("adam_async", 0.1), loss=keras.losses.BinaryCrossentropy(from_logits=True))
    trained.fit(KEYS[:32], LABELS[:32], verbose=0)
    (table,) = embedding_variables(trained)
    state = table.state()
    size = sum(array.nbytes for array in (*vars(state).values(), *state.slots.values()) if isinstance(array, np.ndarray))
    assert table.stats().candidates or state.filter.size
    monkeypatch.setattr(variable, "MOST_AT_ONCE", size)
    save(trained, tmp_path)
    monkeypatch.setattr(variable, "MOST_AT_ONCE", size - 1)
    with pytest.raises(
        CtrlabError, match=rf"embedding variable {table.name} has 0\.0 GB: save it by ctrlab\.training\.Checkpoints, "
    ):
        save(trained, tmp_path)


def test_a_saved_model_reads_zero_for_keys_it_does_not_know(trained, answers, tmp_path):
    tf.saved_model.save(trained, str(tmp_path))
    serve = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    np.testing.assert_allclose(serve(tf.constant(KEYS))["output_0"], answers, rtol=1e-6)
    unknown = serve(tf.constant([[10_000, -10_000, 10_001]], tf.int64))["output_0"]
    np.testing.assert_allclose(unknown, [trained.layers[-1].bias.numpy()], rtol=1e-6)


def test_an_exported_model_in_a_session_and_out_of_it(trained, answers, tmp_path):
    trained.export(str(tmp_path), verbose=False)
    eager = tf.saved_model.load(str(tmp_path))
    np.testing.assert_allclose(eager.serve(tf.constant(KEYS)), answers, rtol=1e-6)
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(tmp_path))
        signature = loaded.signature_def["serving_default"]
        (given,), (out,) = signature.inputs.values(), signature.outputs.values()
        np.testing.assert_allclose(session.run(out.name, {given.name: KEYS}), answers, rtol=1e-6)


def test_a_process_of_its_own_serves_what_was_exported(trained, answers, tmp_path):
    trained.export(str(tmp_path / "served"), verbose=False)
    np.save(tmp_path / "keys.npy", KEYS)
    code = """
import sys
import ctrlab, numpy as np, tensorflow as tf
served = tf.saved_model.load(sys.argv[1] + "/served")
np.save(sys.argv[1] + "/answers.npy", served.serve(tf.constant(np.load(sys.argv[1] + "/keys.npy"))))
"""
    found = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    np.testing.assert_allclose(np.load(tmp_path / "answers.npy"), answers, rtol=1e-6)


def test_loaded_twice_they_are_two(trained, answers, tmp_path):
    trained.export(str(tmp_path), verbose=False)
    first, second = (tf.saved_model.load(str(tmp_path)) for _ in range(2))
    del first
    np.testing.assert_allclose(second.serve(tf.constant(KEYS)), answers, rtol=1e-6)


def test_a_tensorflow_checkpoint_takes_model_and_optimizer(trained, answers, tmp_path):
    path = tf.train.Checkpoint(model=trained, optimizer=trained.optimizer).save(tmp_path / "ck")
    other = keras.Model.from_config(trained.get_config())
    optimizer = TouchedRows("adam_async", 0.1)
    optimizer.build(other.trainable_variables)
    tf.train.Checkpoint(model=other, optimizer=optimizer).restore(path).expect_partial()
    np.testing.assert_array_equal(other.predict(KEYS, verbose=0), answers)
    assert_same_state(other, trained)
    assert int(optimizer.iterations) == int(trained.optimizer.iterations)


class Worse(keras.callbacks.Callback):
    """An optimizer whose steps do harm from the second epoch on, so the first epoch is the best for any initial weights."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch:
            self.model.optimizer.learning_rate = 20.0

    def on_epoch_end(self, epoch, logs=None):
        if not epoch:
            self.after_the_first = self.model.predict(KEYS, verbose=0), state_of(self.model)


def test_the_best_weights_come_back_with_their_rows():
    model, worse = network(options=Options(admission=CounterFilter(2))), Worse()
    model.compile(TouchedRows("adagrad", 0.1), loss=keras.losses.BinaryCrossentropy(from_logits=True))
    stop = keras.callbacks.EarlyStopping("loss", patience=2, restore_best_weights=True)
    losses = model.fit(KEYS, LABELS, epochs=9, batch_size=32, callbacks=[worse, stop], verbose=0).history["loss"]
    assert len(losses) == 3 and min(losses) == losses[0]
    answers, rows = worse.after_the_first
    np.testing.assert_array_equal(model.predict(KEYS, verbose=0), answers)
    for name, array in state_of(model).items():
        np.testing.assert_array_equal(array, rows[name])


def test_weights_pass_from_model_to_model_in_memory(trained, answers):
    """Slots stay behind where the other optimizer has others; then training starts from its own initial ones."""
    other = network(options=embedding_variables(trained)[0].options)
    other.compile(TouchedRows("adagrad", 0.1), loss="mse")
    other.optimizer.build(other.trainable_variables)
    other.set_weights(trained.get_weights())
    np.testing.assert_array_equal(other.predict(KEYS, verbose=0), answers)
    found = state_of(other)
    assert set(found) == {"keys", "values", "steps", "accumulator"} and np.all(found["accumulator"] == 0.1)
    alike = keras.Model.from_config(trained.get_config())
    alike.compile(TouchedRows("adam_async", 0.1), loss="mse")
    alike.optimizer.build(alike.trainable_variables)
    set_state(get_state(trained, trained.optimizer), alike, alike.optimizer)
    assert_same_state(alike, trained)


def test_weights_without_rows_are_refused_and_nothing_changes(trained, answers):
    with pytest.raises(CtrlabError, match=r"get_weights .*received an array without"):
        trained.set_weights([np.array(w) for w in trained.get_weights()])
    np.testing.assert_array_equal(trained.predict(KEYS, verbose=0), answers)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "ftrl", keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=1.0)])
def test_any_other_optimizer_is_refused_with_one_sentence(optimizer):
    model = network()
    model.compile(optimizer, loss="mse")
    with pytest.raises(CtrlabError, match="compile the model with TouchedRows"):
        model.fit(KEYS, LABELS, verbose=0)
    assert embedding_variables(model)[0].rows() == 0


def test_columns_share_tables_and_are_looked_up_in_one_op():
    layer = Embedding(
        2,
        columns={"item": "items", "history": "items", "shop": "shops", "tags": "tags"},
        combiner={"item": "rows", "history": "mean", "shop": "sum", "tags": "rows"},
        options={
            "items": Options(Initializer("constant", 1.0)),
            "shops": Options(Initializer("constant", 10.0)),
            "tags": Options(Initializer("constant", 5.0)),
        },
    )
    features = {
        "item": tf.constant([7, 8], tf.int64),
        "history": tf.ragged.constant([[7, 7, -1], []], dtype=tf.int64, row_splits_dtype=tf.int64),
        "shop": tf.constant([[1, 2], [3, 4]], tf.int64),
        "tags": tf.ragged.constant([[], [1, 2]], dtype=tf.int64, row_splits_dtype=tf.int64),
    }
    found = layer(features, training=True)
    np.testing.assert_array_equal(found["item"], [[1, 1], [1, 1]])
    np.testing.assert_array_equal(found["history"], [[1, 1], [0, 0]])
    np.testing.assert_array_equal(found["shop"], [[20, 20], [20, 20]])
    assert found["tags"].to_list() == [[], [[5, 5], [5, 5]]]
    assert [v.name for v in embedding_variables(layer)] == ["items", "shops", "tags"]
    graph = tf.function(lambda f: layer(f, training=True)).get_concrete_function(features).graph
    assert sum(op.type == "Ctrlab>EmbeddingLookup" for op in graph.get_operations()) == 1
    with tf.GradientTape() as tape:
        out = layer(features, training=True)
        loss = tf.reduce_sum(out["item"]) + 3 * tf.reduce_sum(out["history"])
    gradient = tape.gradient(loss, layer.trainable_variables[0].value)
    np.testing.assert_array_equal(gradient.indices, [-1, 7, 7, 7, 8])
    np.testing.assert_allclose(gradient.values, [[1, 1], [3, 3], [0, 0], [0, 0], [1, 1]])


@pytest.mark.parametrize("shape", [(5,), (5, 2), (2, 3, 4), (0,)])
def test_sequences_keep_the_shape_of_their_keys(shape):
    layer = Embedding(3, combiner="rows", options=Options(Initializer("constant", 2.0)))
    out = layer(tf.zeros(shape, tf.int64), training=True)
    assert out.shape == (*shape, 3) and (out.numpy() == 2).all()


def test_config_makes_the_same_layer_again():
    layer = Embedding(
        2, {"a": "t", "b": "u"}, {"a": "sum", "b": "mean"}, {"t": Options(eviction=L2Eviction(0.1)), "u": Options()}, name="pair"
    )
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    assert again.get_config() == layer.get_config() and again.options == layer.options


def test_what_a_layer_refuses():
    with pytest.raises(UnknownName, match="combiner of column"):
        Embedding(2, combiner="max")
    with pytest.raises(CtrlabError, match="'c' is named on one side only"):
        Embedding(2, {"a": "t"}, options={"t": Options(), "c": Options()})
    for columns in ({}, ["a"]):
        with pytest.raises(CtrlabError, match=r"must be a mapping \{column: table\}; received [\[{]"):
            Embedding(2, columns)
    layer = Embedding(2, {"a": "t"})
    with pytest.raises(CtrlabError, match=r"columns \['a'\]; received \['b'\]"):
        layer({"b": tf.zeros([1], tf.int64)})
    for keys in (tf.zeros([1], tf.int64), None):
        with pytest.raises(CtrlabError, match=r"^Layer \w+ takes \{column: keys\} for a; received a \w+: see its argument "):
            layer(keys)
    with pytest.raises(CtrlabError, match=r"^Keys are an int64 or a ragged tensor; received None in column 'a'\.$"):
        layer({"a": None})
    with pytest.raises(CtrlabError, match=r"received a dict: .*`columns`"):
        Embedding(2, name="one")({"a": tf.zeros([1], tf.int64)})
    with pytest.raises(CtrlabError, match="Keys that are pooled"):
        layer({"a": tf.zeros([1, 2, 3], tf.int64)})
    with pytest.raises(CtrlabError, match=r"^Keys must be int64; received int32 in column 'a': cast them, [^\n]*$"):
        layer({"a": tf.zeros([1], tf.int32)})
    with pytest.raises(CtrlabError, match=r"float32 in column 'keys': .*keras\.Input"):
        keras.Sequential([Embedding(2)]).build((None, 3))


def test_keras_compiles_without_xla_and_says_so():
    keys = keras.Input((), dtype="int64")
    model = keras.Model(keys, keras.layers.Dense(1)(Embedding(2)(keys)))
    with pytest.warns(UserWarning, match="jit_compile=False"):
        model.compile(TouchedRows("sgd", 0.1), "mse", jit_compile=True)
    model.fit(tf.constant([1, 2], tf.int64), tf.ones([2, 1]), verbose=0)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "float16"])
def test_under_mixed_precision_rows_stay_float32_and_what_is_read_is_cast(dtype):
    keys, options = tf.constant([[7, 8]], tf.int64), Options(Initializer("constant", 1 + 2**-20))
    layer, optimizer = Embedding(2, combiner="rows", options=options, dtype=dtype), TouchedRows("sgd", 1.0, loss_scale=0)
    optimizer.build(layer.trainable_variables)
    with tf.GradientTape() as tape:
        found = layer(keys, training=True)
        loss = tf.reduce_sum(tf.cast(found, tf.float32)) * 2**-21
    assert found.dtype == layer.compute_dtype and (found.numpy().astype("f4") == 1).all()
    optimizer.apply([tape.gradient(loss, layer.trainable_variables[0].value)], layer.trainable_variables)
    np.testing.assert_array_equal(embedding_variables(layer)[0].state().values, np.full((2, 2), 1 + 2**-21, np.float32))


def test_a_fused_step_writes_no_zeros(trained):
    """Where nothing lies between gradient and optimizer, the step takes merged rows and the spread ones are never made."""
    model = network()
    optimizer = TouchedRows("adagrad", 0.1)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(keys):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(keys, training=True))
        optimizer.apply(tape.gradient(loss, [v.value for v in model.trainable_variables]), model.trainable_variables)

    graph = step.get_concrete_function(tf.constant(KEYS)).graph
    (update,) = [op for op in graph.get_operations() if op.type == "Ctrlab>EmbeddingUpdate"]
    assert {i.op.type for i in update.inputs[1:4]} == {"Ctrlab>EmbeddingLookupGradient"}
    assert not [
        c for op in graph.get_operations() if op.type == "Ctrlab>EmbeddingSpread" for o in op.outputs for c in o.consumers()
    ]
