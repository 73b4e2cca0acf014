"""A step whose loss, gradient or learning rate is not finite did not happen: every byte is as before, and training goes on as if
the bad batch had never come."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from every_byte import changed, held

from ctrlab.errors import BadData
from ctrlab.models import MODELS, build
from ctrlab.schema import Categorical, Label, Numeric, Schema, Sequence
from ctrlab.training import SeveralSteps, TouchedRows, compile_model, train, train_step
from ctrlab.training.optimizers import KINDS

ROWS, STEPS = 16, 5
SCHEMA = Schema(
    "clicks",
    (
        Label("clicked"),
        Numeric("price"),
        Numeric("age"),
        Categorical("user", 300),
        Categorical("item", 200),
        Sequence("history", 200, table="item", of="item", max_length=4),
    ),
    wide=("user", "item"),
)
HOW = ("train", "several", "fit", "fit several", "eager")
RATE = {"sgd": 0.05, "adagrad": 0.05, "ftrl": 0.05, "adam_async": 0.01}


def batch(number, price=None, label=None):
    rng = np.random.default_rng(number)
    words = {"user": 300, "item": 200}
    features = {name: tf.constant([f"w{i}" for i in rng.integers(0, n, ROWS)]) for name, n in words.items()}
    features["history"] = tf.RaggedTensor.from_row_lengths([f"w{i}" for i in rng.integers(0, 200, 2 * ROWS)], [2] * ROWS)
    numbers, labels = rng.random((2, ROWS)).astype("f4"), rng.integers(0, 2, (ROWS, 1)).astype("f4")
    if price is not None:
        numbers[0, 5] = price
    if label is not None:
        labels[5] = label
    return features | {"price": tf.constant(numbers[0]), "age": tf.constant(numbers[1])}, tf.constant(labels)


def data_set(batches):
    spec = tf.nest.map_structure(tf.type_spec_from_value, batch(0))
    return tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=spec)


def made(kind="adam_async", rungs="none", embedding="hashed", **options):
    model = build("deepfm", SCHEMA, rungs, 3, embedding, **{"size": "small", **options})
    optimizer = TouchedRows(kind, RATE[kind], rungs=model.rungs)
    optimizer.build(model.trainable_variables)
    return model, optimizer


class Trained:
    """A model, trained in one of the ways, call after call."""

    def __init__(self, how, model, optimizer):
        self.how, self.model, self.optimizer = how, model, optimizer
        if how in ("train", "several"):
            step = train_step(model, optimizer)
            self.step = SeveralSteps(step) if how == "several" else step
        else:
            compile_model(model, optimizer, loop=how == "fit several")
            model.run_eagerly = how == "eager"

    def __call__(self, batches):
        if self.how in ("train", "several"):
            train(self.model, self.optimizer, data_set(batches), step=self.step)
        else:
            self.model.fit(data_set(batches), verbose=0)

    def held(self):
        return held(self.model, self.optimizer)


def refuses(trained, bad, sentence):
    """The batch is refused and changes nothing."""
    before = trained.held()
    for _ in range(3):  # in a graph what is not ordered comes now before, now after
        with pytest.raises(BadData, match=sentence) as caught:
            trained([bad])
        assert "\n" not in str(caught.value)
        assert changed(before, trained.held()) == []


AFTER_TWO = r"finite; nothing was changed; received .* after 2 steps: look for nan"


def nothing_changes(how, kind, rungs, embedding):
    trained = Trained(how, *made(kind, rungs, embedding))
    trained([batch(0), batch(1)])
    refuses(trained, batch(2, price=np.nan), AFTER_TWO)
    trained([batch(2)])
    assert int(trained.optimizer.iterations) == 3
    trained.optimizer.learning_rate.assign(np.inf)
    refuses(trained, batch(3), "learning rate")


@pytest.mark.parametrize("rungs", ["none", "stock", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_nan_in_a_feature_and_an_infinite_rate_of_every_optimizer_and_rung(kind, rungs):
    nothing_changes("several", kind, rungs, "variable" if kind in ("adagrad", "adam_async") else "hashed")


@pytest.mark.parametrize("embedding", ["hashed", "variable"])
@pytest.mark.parametrize("how", HOW)
def test_nan_in_a_feature_and_an_infinite_rate_however_it_is_trained(how, embedding):
    nothing_changes(how, "adam_async", "all" if how in ("fit", "several") else "none", embedding)


BAD_BATCHES = {
    "inf in a feature": (batch(2, price=np.inf), "finite"),
    "nan as a label": (batch(2, label=np.nan), r"from 0 to 1, .*; received labels nan"),
    "inf as a label": (batch(2, label=np.inf), r"from 0 to 1, .*; received labels inf"),
    "a label of 2": (batch(2, label=2.0), r"from 0 to 1, .*; received labels 2"),
}


@pytest.mark.parametrize("how", ["several", "fit"])
def test_a_bad_batch_changes_nothing_also_before_the_first_step(how):
    trained = Trained(how, *made(embedding="variable"))
    for _ in range(2):
        for bad, sentence in BAD_BATCHES.values():
            refuses(trained, bad, sentence)
        trained([batch(0)])
    assert int(trained.optimizer.iterations) == 2


@pytest.mark.parametrize("how", HOW)
def test_a_loss_that_is_not_finite_where_the_gradients_are(how):
    """An example is a logit of inf, for which the gradient of the sigmoid is 0 or 1."""
    model, optimizer = made()
    call = model.call

    def adding(features, training=False):
        model.add_loss(tf.constant(np.inf))
        return call(features, training=training)

    model.call = adding
    refuses(Trained(how, model, optimizer), batch(0), "The loss must be finite; nothing was changed; received inf after 0 steps")


@tf.custom_gradient
def infinite(x):
    return tf.identity(x), lambda d: d * np.inf


@pytest.mark.parametrize("how, rungs", [*itertools.product(HOW[1:3], ["none", "all"]), ("eager", "none")])
def test_a_gradient_that_is_not_finite_where_the_loss_is(how, rungs):
    model, optimizer = made(rungs=rungs)
    call = model.call
    model.call = lambda features, training=False: infinite(call(features, training=training))
    refuses(Trained(how, model, optimizer), batch(0), r"A gradient .* must be finite; nothing was changed; .* after 0 steps")


KEPT = r"What a layer keeps of its batches must be finite; nothing was changed; .*{} after 1 steps: look for nan"
UNSCALED = {"size": "contest", "batch_norm": True}


@pytest.mark.parametrize("how, rungs", [("several", "all"), ("fit", "none"), ("eager", "none")])
def test_a_huge_number_that_the_normalization_hides_from_the_loss(how, rungs):
    """Its square is inf: so would the moving variance be, for good."""
    model, optimizer = made(rungs=rungs, **UNSCALED)
    trained = Trained(how, model, optimizer)
    trained([batch(0)])
    refuses(trained, batch(1, price=1e21), KEPT.format("moving_variance"))
    trained([batch(1)])
    assert int(optimizer.iterations) == 2


def test_a_huge_number_of_standardized_numbers():
    model = build("dlrm", SCHEMA, "all", 3, size=dataclasses.replace(MODELS["dlrm"].presets["small"], scaled=True))
    optimizer = TouchedRows("adam_async", 0.01)
    trained = Trained("train", model, optimizer)
    trained([batch(0)])
    refuses(trained, batch(1, price=1e21), KEPT.format("numbers/variance"))


@pytest.mark.parametrize("kind", ["adagrad", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("sgd", "ftrl", "keras"))])
def test_a_huge_number_whatever_the_optimizer(kind):
    model, optimizer = made("sgd" if kind == "keras" else kind, **UNSCALED)
    if kind == "keras":
        optimizer = keras.optimizers.Adam(0.01)
    trained = Trained("fit", model, optimizer)
    trained([batch(0)])
    refuses(trained, batch(1, price=1e21), KEPT.format("moving_variance"))
    refuses(trained, batch(1, label=np.nan), "received labels nan")


@pytest.mark.parametrize("how, value", [("several", np.nan), ("fit", 1e30)])
def test_a_weight_that_went_wrong_spoils_no_other(how, value):
    """Set by hand, or left by a rate that was much too large: the steps after it are refused."""
    model, optimizer = made(rungs="all")
    weight = next(w for w in model.trainable_variables if w.path.endswith("dense_0/kernel"))
    weight.assign(np.full(weight.shape, value, "f4"))
    refuses(Trained(how, model, optimizer), batch(0), "finite")


def test_step_three_of_five_in_one_call_ends_it_after_two():
    model, optimizer = made(embedding="variable")
    trained = Trained("several", model, optimizer)
    batches, losses = [batch(n, price=np.nan if n == 2 else None) for n in range(STEPS)], []
    with pytest.raises(BadData, match=AFTER_TWO):
        train(model, optimizer, data_set(batches), on_step=lambda n, loss: losses.append(loss), step=trained.step)
    assert len(losses) == int(optimizer.iterations) == 2


@pytest.mark.parametrize("how, rungs", [*itertools.product(HOW[1:3], ["none", "all"]), ("eager", "none")])
def test_training_goes_on_as_if_the_bad_batch_had_never_come(how, rungs):
    """Up to rounding: where threads add in another order, two equal trainings differ by that."""
    ends = []
    for bad in ([], [batch(9, price=np.nan)]):
        model, optimizer = made(rungs=rungs, dropout=0.3, batch_norm=True)
        trained = Trained(how, model, optimizer)
        trained([batch(0), batch(1)])
        for each in bad:
            with pytest.raises(BadData, match=AFTER_TWO):
                trained([each])
        trained([batch(2), batch(3)])
        ends.append({v.path: v.numpy() for v in (*model.weights, *optimizer.variables)})
    for path, array in ends[0].items():
        np.testing.assert_allclose(ends[1][path], array, rtol=1e-4, atol=1e-6, err_msg=path)


def test_what_the_forward_pass_assigns_is_assigned_after_a_good_step():
    model, optimizer = made(rungs="all", dropout=0.3, batch_norm=True)
    before = {v.path: v.numpy() for v in model.non_trainable_variables}
    assert all(any(each in path for path in before) for each in ("moving_mean", "moving_variance", "drawn"))
    for seed, how in enumerate(("train", "fit", "eager")):
        Trained(how, model, optimizer)([batch(seed)])
        after = {v.path: v.numpy() for v in model.non_trainable_variables}
        assert [path for path in before if np.array_equal(before[path], after[path])] == []
        before = after


def test_a_scaled_loss_skips_the_step_and_only_halves_its_scale():
    model = build("deepfm", SCHEMA, seed=3, size="small", batch_norm=True)
    optimizer = TouchedRows("adam_async", 0.01, loss_scale=2.0**10)
    optimizer.build(model.trainable_variables)
    trained = Trained("fit", model, optimizer)
    trained([batch(0), batch(1)])
    before = trained.held()
    trained([batch(2, price=np.nan)])
    assert {path.split("/")[-1] for path in changed(before, trained.held())} == {"dynamic_scale", "step_counter"}
    assert float(optimizer.dynamic_scale.value) == 2.0**9


@pytest.mark.parametrize("rungs", [(), ("lookup",)])
def test_the_weights_slots_and_counts_of_another_keras_model_in_fit(rungs):
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, "relu"), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    )
    optimizer = TouchedRows("adam_async", 0.01, rungs=rungs)
    model.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True))
    x, y = np.random.default_rng(0).normal(size=(8, 3)).astype("f4"), np.ones((8, 1), "f4")
    model.fit(x, y, verbose=0)

    def state():
        return [v.numpy().tobytes() for v in (*model.trainable_variables, *optimizer.variables)]

    before = state()
    with pytest.raises(tf.errors.InvalidArgumentError, match="finite; nothing was changed"):
        model.fit(x * np.nan, y, verbose=0)
    assert state() == before
