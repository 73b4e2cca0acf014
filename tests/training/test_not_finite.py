"""A step whose loss, gradient or learning rate is not finite did not happen: every byte is as before, and training goes on as if
the bad batch had never come."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import embedding_variables
from ctrlab.errors import BadData
from ctrlab.features import Categorical, Label, Numeric, Schema, Sequence
from ctrlab.models import build
from ctrlab.training import SeveralSteps, TouchedRows, compile_model, train, train_step
from ctrlab.training.optimizers import KINDS

ROWS, STEPS, BAD = 16, 5, 3
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


def made(kind="adam_async", rungs="none", embedding="hashed", name="deepfm", **options):
    model = build(name, SCHEMA, rungs, seed=3, embedding=embedding, **options)
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
        """Every byte of weights, slots, counts, statistics and tables."""
        found = {v.path: np.asarray(v.value).tobytes() for v in (*self.model.weights, *self.optimizer.variables)}
        for table in embedding_variables(self.model):
            state = table.state()
            order = np.argsort(state.keys)
            arrays = [state.keys, state.values, state.frequencies, state.steps, *state.slots.values()]
            found |= {f"{table.name} {k}": array[order].tobytes() for k, array in enumerate(arrays)}
        return found


def changed(one, other):
    return [name for name in one if one[name] != other[name]]


def check(how, model, optimizer, bad, sentence, at=BAD):
    """Batches `at` - 1 good ones, a bad one, and more: the bad one changes nothing, and the others are trained on as without it.

    The process sums in another order now and then, so the model itself, not a twin, shows what training without it would do."""
    trained = Trained(how, model, optimizer)
    if at > 1:
        trained([batch(n) for n in range(at - 1)])
    before = trained.held()
    for _ in range(3):  # in a graph what is not ordered comes now before, now after
        with pytest.raises(BadData, match=sentence) as caught:
            trained([bad])
        assert "\n" not in str(caught.value)
        assert changed(before, trained.held()) == []
    return trained


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("embedding", ["hashed", "variable"])
@pytest.mark.parametrize("rungs", ["none", "stock", "all"])
@pytest.mark.parametrize("kind", KINDS)
def test_nan_in_a_feature_changes_nothing(kind, rungs, embedding, how):
    trained = check(how, *made(kind, rungs, embedding), batch(BAD, price=np.nan), r"finite; .* received .* after 2 steps")
    trained([batch(BAD)])
    assert int(trained.optimizer.iterations) == BAD
