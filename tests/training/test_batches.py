"""`train` and `fit` take the same batches and refuse the same ones, in the same sentence."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.errors import BadData
from ctrlab.models import build
from ctrlab.schema import Categorical, Label, Numeric, Schema, Sequence
from ctrlab.training import compile_model, make_optimizer, train

ROWS = 8
FEATURES = (
    Numeric("price"),
    Categorical("user", 300),
    Categorical("hour", 24, encoding="identity", default="0"),
    Categorical("device", encoding="vocabulary", vocabulary=("phone", "desk"), default="desk"),
    Sequence("history", 300, table="user", of="user", max_length=4),
)
ONE = Schema("one", (Label("clicked"), *FEATURES), wide=("user",))
TWO = Schema("two", (Label("clicked"), Label("bought"), *FEATURES), wide=("user",))
rng = np.random.default_rng(0)
CLICKS = rng.integers(0, 2, ROWS)


def features():
    return {
        "price": tf.constant(rng.random(ROWS).astype("f4")),
        "user": tf.constant([f"u{i}" for i in rng.integers(0, 300, ROWS)]),
        "hour": tf.constant(rng.integers(0, 24, ROWS)),
        "device": tf.constant(["phone"] * ROWS),
        "history": tf.RaggedTensor.from_row_lengths([f"u{i}" for i in rng.integers(0, 300, 2 * ROWS)], [2] * ROWS),
    }


def by_train(model, batch):
    train(model, make_optimizer(model), [batch])


def by_fit(model, batch):
    compile_model(model).fit(tf.data.Dataset.from_tensors(batch), verbose=0)


def by_evaluate(model, batch):
    compile_model(model).evaluate(tf.data.Dataset.from_tensors(batch), verbose=0)


WAYS = [by_train, by_fit]


def weights(model):
    return [v.numpy().tobytes() for v in model.weights]


LABELS = {
    "[B]": CLICKS.astype("f4"),
    "[B, 1]": CLICKS[:, None].astype("f4"),
    "int": CLICKS,
    "uint8": CLICKS.astype("u1"),
    "bool": CLICKS.astype(bool),
    "float64": CLICKS.astype("f8")[:, None],
    "list": CLICKS.tolist(),
}


@pytest.mark.parametrize("way", WAYS)
def test_labels_of_every_shape_and_type_train_alike(way):
    ends, batch = {}, features()
    for what, labels in LABELS.items():
        model = build("wdl", ONE, "all", seed=1)
        way(model, (batch, tf.constant(labels)))
        ends[what] = np.concatenate([v.numpy().ravel() for v in model.weights])
    for what, end in ends.items():
        np.testing.assert_allclose(end, ends["[B, 1]"], rtol=1e-4, atol=1e-6, err_msg=what)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["f4", "i8", "?"])
def test_labels_of_two_tasks(way, dtype):
    way(build("mmoe", TWO, "all"), (features(), tf.constant(rng.integers(0, 2, (ROWS, 2)).astype(dtype))))


@pytest.mark.parametrize("way", WAYS)
def test_soft_labels(way):
    way(build("wdl", ONE, "all"), (features(), tf.constant(rng.random((ROWS, 1)).astype("f4"))))


BAD_LABELS = {
    "two for one": (
        ONE,
        np.zeros((ROWS, 2), "f4"),
        r"\[B\] or \[B, 1\], a column for each of the tasks clicked; received the shape \[",
    ),
    "one for two": (
        TWO,
        np.zeros((ROWS, 1), "f4"),
        r"\[B, 2\], a column for each of the tasks clicked, bought; received the shape \[",
    ),
    "[B] for two": (
        TWO,
        np.zeros(ROWS, "f4"),
        r"\[B, 2\], a column for each of the tasks clicked, bought; received the shape \[",
    ),
    "text": (ONE, np.array(["1"] * ROWS), r"received string: write 0 and 1"),
    "above 1": (ONE, np.full(ROWS, 2), r"from 0 to 1, .*; received labels 2"),
    "below 0": (ONE, np.full(ROWS, -1), r"from 0 to 1, .*; received labels -1"),
    "nan": (ONE, np.full(ROWS, np.nan, "f4"), r"from 0 to 1, .*; received labels nan"),
}


def refused(way, model, batch, sentence):
    before = weights(model)
    with pytest.raises(BadData, match=sentence) as caught:
        way(model, batch)
    assert "\n" not in str(caught.value)
    assert weights(model) == before


@pytest.mark.parametrize("way", [*WAYS, by_evaluate])
@pytest.mark.parametrize("what", BAD_LABELS)
def test_labels_that_are_refused(way, what):
    schema, labels, sentence = BAD_LABELS[what]
    refused(way, build("wdl" if schema is ONE else "mmoe", schema, "all"), (features(), tf.constant(labels)), sentence)


BAD_FEATURES = {
    "missing": (lambda f: f.pop("user"), "user is missing in price, hour, device, history: add it"),
    "missing number": (lambda f: f.pop("price"), "price is missing in user, hour, device, history: add it"),
    "ids for words": (
        lambda f: f.update(user=tf.constant(np.arange(ROWS))),
        "Column 'user' takes text, or ids made offline as int32; received int64",
    ),
    "ids for a vocabulary": (lambda f: f.update(device=tf.zeros([ROWS], tf.int64)), "'device' takes text"),
    "a list of ids": (
        lambda f: f.update(history=tf.RaggedTensor.from_row_lengths(np.arange(2 * ROWS), [2] * ROWS)),
        "'history' takes text, or ids made offline as int32; received int64",
    ),
    "floats for ids": (
        lambda f: f.update(hour=tf.zeros([ROWS])),
        "'hour' takes text, or ids made offline as int64 .*; received float32",
    ),
    "text for numbers": (lambda f: f.update(price=tf.constant(["1"] * ROWS)), "'price' takes numbers; received string"),
    "[B, 1]": (lambda f: f.update(user=f["user"][:, None]), r"'user' must be \[B\]; received a dense \("),
    "a dense list": (lambda f: f.update(history=tf.fill([ROWS, 2], "u")), "'history' must be a ragged"),
    "a ragged word": (lambda f: f.update(user=f["history"]), r"'user' must be \[B\]; received a ragged"),
}


@pytest.mark.parametrize("rungs", ["none", "all"])
@pytest.mark.parametrize("way", [*WAYS, by_evaluate])
@pytest.mark.parametrize("what", BAD_FEATURES)
def test_features_that_are_refused(way, what, rungs):
    spoil, sentence = BAD_FEATURES[what]
    spoiled = features()
    spoil(spoiled)
    refused(way, build("deepfm", ONE, rungs), (spoiled, tf.constant(CLICKS)), sentence)


@pytest.mark.parametrize("rungs", ["none", "all"])
@pytest.mark.parametrize("way", [*WAYS, by_evaluate])
def test_a_batch_without_rows(way, rungs):
    empty = tf.nest.map_structure(lambda x: x[:0], features())
    refused(way, build("deepfm", ONE, rungs), (empty, tf.zeros([0, 1])), "at least one row")


@pytest.mark.parametrize("rungs", ["none", "all"])
def test_numbers_of_any_width_are_the_same_numbers(rungs):
    model, given = build("deepfm", ONE, rungs), features()
    given["price"] = tf.constant(rng.integers(0, 9, ROWS), tf.float32)
    expected = model(given).numpy()
    for dtype in (tf.float64, tf.int32, tf.int64, tf.uint8):
        np.testing.assert_array_equal(model(given | {"price": tf.cast(given["price"], dtype)}).numpy(), expected)


@pytest.mark.parametrize("rungs", ["none", "all"])
def test_ids_made_offline_are_those_of_the_words(rungs):
    model, given = build("deepfm", ONE, rungs), features()
    ids = model.encoder.ids(given)
    offline = {c: tf.cast(ids[c], tf.int32) for c in ("user", "device", "history")}
    np.testing.assert_array_equal(model(given | offline).numpy(), model(given).numpy())
