"""Properties of all six models, each on a small copy of its own data set."""

import dataclasses
import functools
import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab import training
from ctrlab.data import SCHEMAS
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.model_names import DATA_SETS
from ctrlab.models import MODELS, build
from ctrlab.schema import Categorical, Label, MultiHot, Schema

RECORDED = Path(__file__).with_name("recorded_losses.json")
STEPS = 10


def small(name):
    return SCHEMAS[DATA_SETS[name]].with_buckets(500)


def new(name, schema=None, optimizations="none"):
    """Model, optimizer and step on `schema`, by default its own data set's with small tables."""
    model = build(name, schema or small(name), optimizations)
    optimizer = training.make_optimizer(model)
    return model, optimizer, training.train_step(model, optimizer)


def losses_of(name, batch):
    """The losses of the first ten steps from the fixed seed.

    At a small learning rate: at DLRM's own, Adam's first steps enlarge rounding so much that another processor's order of
    additions is seen in the second digit after ten of them.
    """
    model = build(name, small(name))
    hyper = dataclasses.replace(model.hyper, learning_rate=min(model.hyper.learning_rate, 3e-4))
    step = training.train_step(model, training.make_optimizer(model, hyper))
    return [float(step(*batch(model.schema, seed=number % 4))) for number in range(STEPS)]


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_as_recorded(name, batch):
    np.testing.assert_allclose(losses_of(name, batch), json.loads(RECORDED.read_text())[name], rtol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_shapes_names_and_weights_made_at_once(name, batch):
    model = build(name, small(name))
    assert model.weights and model.trainable_weights
    paths = [v.path for v in model.weights]
    assert len(set(paths)) == len(paths)
    features, labels = batch(model.schema, rows=7)
    logits = model(features)
    assert (logits.shape, logits.dtype) == (labels.shape, tf.float32)
    assert [v.path for v in model.weights] == paths, "a call must make no variable"
    assert model(batch(model.schema, rows=0)[0]).shape == (0, len(model.tasks))


@pytest.mark.parametrize("name", MODELS)
def test_every_trainable_weight_has_a_gradient(name, batch):
    model = build(name, small(name))
    _, _, gradients = training.gradients_of(model, *batch(model.schema))
    assert not [v.path for v, g in zip(model.trainable_variables, gradients) if g is None]


@pytest.mark.parametrize("name", MODELS)
def test_same_seed_same_weights_whatever_the_optimizations(name):
    first, second, other = build(name, small(name)), build(name, small(name), "all"), build(name, small(name), seed=1)
    for a, b in zip(first.weights, second.weights):
        np.testing.assert_array_equal(a, b, err_msg=a.path)
    assert any(np.any(a.numpy() != b.numpy()) for a, b in zip(first.weights, other.weights))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("data_set", SCHEMAS)
def test_presets_of_all_schemas(name, data_set, batch):
    schema = SCHEMAS[data_set].with_buckets(100)
    if name in ("din", "dien") and not schema.histories:
        with pytest.raises(CtrlabError, match=f"{name!r} needs a Sequence .*{data_set!r} has none. Models wdl, deepfm, dlrm"):
            build(name, schema)
        return
    model = build(name, schema, "all")
    features, labels = batch(schema, rows=16)
    loss, _, gradients = training.gradients_of(model, features, labels)
    training.make_optimizer(model).apply(gradients, model.trainable_variables)
    assert np.isfinite(loss)
    assert np.isfinite(training.loss_of(model, features, labels, training=False)[0])


@pytest.mark.parametrize("name", MODELS)
def test_unsplit_text_gives_the_same_logits(name, batch, traced):
    model = traced(name).model
    np.testing.assert_allclose(model(batch(model.schema)[0]), model(batch(model.schema, text=True)[0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_overfits_256_rows(name, batch, traced):
    of = traced(name)
    rows, worst = batch(of.model.schema, rows=256), 0.0
    for _ in range(20):
        training.train(of.model, of.optimizer, [rows] * 20, step=of.step)
        worst = min(training.evaluate(of.model, [rows], of.predict).auc.values())
        if worst > 0.99:
            return
    raise AssertionError(f"after 400 steps the AUC on the training rows is {worst}")


@pytest.fixture(scope="module", params=MODELS)
def pair(request, batch, traced):
    """The result of training by our step, and a model that Keras's `fit` trained, on the same four batches."""
    name = request.param
    of = traced(name)
    rows = [batch(of.model.schema, seed=seed) for seed in range(4)]
    losses = [float(of.step(*pair)) for pair in rows]
    ours = [weight.numpy() for weight in of.model.weights], training.evaluate(of.model, rows, of.predict)
    theirs = training.compile_model(build(name, small(name), "all"))
    watched = BatchLosses()
    theirs.fit(as_dataset(rows), shuffle=False, verbose=0, callbacks=[watched, keras.callbacks.TerminateOnNaN()])
    return ours, theirs, losses, watched.means, rows


class BatchLosses(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.means = []

    def on_train_batch_end(self, batch, logs=None):
        self.means.append(logs["loss"])


def as_dataset(rows):
    """`fit` takes string and ragged features as a dataset gives them."""
    datasets = [tf.data.Dataset.from_tensors(pair) for pair in rows]
    return functools.reduce(tf.data.Dataset.concatenate, datasets)


def test_fit_and_our_step_are_the_same_training(pair):
    ours, theirs, losses, means, rows = pair
    np.testing.assert_allclose(means, np.cumsum(losses) / np.arange(1, 5), rtol=1e-4)  # Keras shows the mean so far
    weights, expected = ours
    for a, b in zip(weights, theirs.weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=b.path)
    found = theirs.evaluate(as_dataset(rows), verbose=0, return_dict=True)
    assert found["loss"] == pytest.approx(np.mean(list(expected.log_loss.values())), rel=1e-3)
    names = {task: "auc" if len(theirs.tasks) == 1 else f"auc_{task}" for task in theirs.tasks}
    assert found.keys() == {"loss", *names.values()}
    assert [found[name] for name in names.values()] == pytest.approx([expected.auc[task] for task in names], abs=0.02)


def test_saved_and_loaded_it_answers_and_learns_the_same(pair, tmp_path):
    _, model, _, _, rows = pair
    model.save(path := tmp_path / "model.keras")
    loaded = keras.saving.load_model(path)
    assert (loaded.schema, loaded.rungs, loaded.seed) == (model.schema, model.rungs, model.seed)
    np.testing.assert_array_equal(model(rows[2][0]), loaded(rows[2][0]))
    before = training.get_state(model, model.optimizer)
    after = training.get_state(loaded, loaded.optimizer)
    assert before.keys() == after.keys()
    for path, value in before.items():
        np.testing.assert_array_equal(value, after[path], err_msg=path)
    curves = [m.fit(as_dataset(rows), shuffle=False, verbose=0).history["loss"] for m in (model, loaded)]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-5)


def test_no_row_of_a_table_moves_for_an_empty_bag():
    schema = Schema("bags", (Label("y"), Categorical("c", buckets=8), MultiHot("bag", buckets=8)), wide=("c",))
    words = [f"w{i}" for i in range(60)]
    ids = tf.strings.to_hash_bucket_fast(words, 8).numpy().tolist()
    zero, other = words[ids.index(0)], words[ids.index(3)]
    model, _, step = new("dlrm", schema)
    table = model.embedding.tables["bag"]
    rows = []
    for entries, lengths in (([zero, other], [1, 1]), ([other], [1, 0])):
        bag = tf.RaggedTensor.from_row_lengths(entries, lengths)
        step({"c": tf.constant(["a", "b"]), "bag": bag}, tf.constant([[1.0], [0.0]]))
        rows.append(table.numpy())
    np.testing.assert_array_equal(rows[1][0], rows[0][0], err_msg="row 0 has momentum, and was not in the second batch")
    assert np.any(rows[1][3] != rows[0][3])


@pytest.mark.parametrize("name", MODELS)
def test_work_grows_with_the_batch(name):
    model = build(name, small(name))
    one, two = model.work(512, 5_000.0), model.work(1_024, 10_000.0)
    assert 0 < one.flops < two.flops < 2.01 * one.flops
    assert 0 < one.bytes < two.bytes
    assert 0 < one.random_rows < two.random_rows


def test_unknown_model_names_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'din'"):
        build("dinn")


def record():
    """Writes the losses anew: python tests/models/test_models.py (after a change that is meant to change them)."""
    from conftest import make_batch

    RECORDED.write_text(json.dumps({name: losses_of(name, make_batch) for name in MODELS}, indent=1) + "\n")


if __name__ == "__main__":
    record()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"schema": 3}, r"^A model is built for a Schema, or for the name of a data set; received 3\.$"),
        ({"optimizations": None}, r'^Optimizations are names, "none" or "all"; received None\.$'),
        ({"optimizations": 3}, r'^Optimizations are names, "none" or "all"; received 3\.$'),
        ({"optimizations": ""}, r"^Unknown optimization ''; known are none, all, "),
        ({"optimizations": "lookup,,parsing"}, r"^Unknown optimization ''; known are none, all, "),
        ({"optimizations": [3]}, r"^Unknown optimization 3; known are none, all, "),
        ({"seed": "a"}, r"^A seed must be a whole number in \[0, 2\^32\); received 'a'\.$"),
        ({"seed": -1}, r"^A seed must be a whole number in \[0, 2\^32\); received -1\.$"),
    ],
    ids=str,
)
def test_an_argument_of_another_type_is_one_sentence(arguments, says):
    with pytest.raises(CtrlabError, match=says):
        build("deepfm", **arguments)
