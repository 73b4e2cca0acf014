"""What `fit`, `evaluate` and `predict` of our models refuse: one sentence each, and the model goes on after it."""

import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tensorflow as tf

import ctrlab
from ctrlab import training
from ctrlab.errors import BadData, CtrlabError
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, Schema
from ctrlab.training import compile_model, metrics

SCHEMA = Schema("own", (Categorical("user", buckets=50), Numeric("age"), Label("click")))
ROWS = 8
X = {"user": tf.constant([f"u{i}" for i in range(ROWS)]), "age": tf.range(ROWS, dtype=tf.float32)}
Y = np.arange(ROWS) % 2
FRAME = pd.DataFrame({"user": [f"u{i}" for i in range(ROWS)], "age": np.arange(ROWS, dtype=np.float32), "click": Y})
ONES = np.ones(ROWS)
OTHER = pd.Series(ONES, index=range(1, ROWS + 1))


@pytest.fixture(scope="module")
def model():
    return compile_model(ctrlab.build("wdl", SCHEMA, size="small"))


def fit(model, x=X, y=Y, **options):
    return model.fit(x, y, batch_size=4, verbose=0, **options)


def refused(act, said):
    with pytest.raises(BadData, match=said) as caught:
        act()
    assert len(str(caught.value).splitlines()) == 1 and str(caught.value).endswith(".")


@pytest.mark.parametrize("table", [FRAME, pa.Table.from_pandas(FRAME), "train.parquet", np.zeros((ROWS, 2)), None], ids=type)
def test_tables_are_refused_with_the_cure(model, table):
    for act in (lambda: model.fit(table, Y), lambda: model.evaluate(table), lambda: fit(model, validation_data=(table, Y))):
        refused(act, r"takes batches, or a dict of arrays .*; received \w+: write a table with `ctrlab.data.write`")
    refused(lambda: model.predict(table), "`predict` takes batches.*: give the table to `ctrlab.training.score`")
    if table is not None:
        refused(lambda: fit(model, validation_data=table), "`validation_data` takes batches")


WEIGHTS = {
    "short": (ONES[:5], "have as many rows; received user 8, age 8, y 8, sample_weight 5"),
    "long": (np.ones(11), "sample_weight 11"),
    "NaN": (np.r_[ONES[1:], np.nan], "Sample weights must be finite .*received nan"),
    "infinite": (np.r_[ONES[1:], np.inf], "Sample weights must be finite .*received inf"),
    "negative": (-ONES, "Sample weights must be .*not negative.*received -1 -1 -1"),
    "of two columns": (np.ones((ROWS, 2)), r"received the shape \[8, 2\]"),
    "a column": (np.ones((ROWS, 1)), r"received the shape \[8, 1\]"),
    "one number": (2.0, r"received the shape \[\]"),
    "text": (np.array(["1"] * ROWS), "received string"),
    "a dict": ({"click": ONES}, "received dict: pass one array"),
}


@pytest.mark.parametrize(("weights", "said"), WEIGHTS.values(), ids=WEIGHTS)
def test_weights_that_are_refused(model, weights, said):
    for act in (fit, lambda model, **given: model.evaluate(X, Y, verbose=0, **given)):
        refused(lambda act=act: act(model, sample_weight=weights), said)
    refused(lambda: fit(model, validation_data=(X, Y, weights)), said)
    if np.ndim(weights):
        data_set = tf.data.Dataset.from_tensors((X, Y, tf.constant(weights)))
        refused(lambda: model.fit(data_set, verbose=0), "Sample weights must be finite numbers")


@pytest.mark.parametrize("weights", [[1.0] * ROWS, pd.Series(ONES), OTHER, ONES.astype(int), ONES > 0, np.zeros(ROWS)], ids=type)
def test_weights_that_are_taken(model, weights):
    x = {"user": FRAME["user"].tolist(), "age": FRAME["age"].to_numpy()}
    assert np.isfinite(fit(model, x, Y.tolist(), sample_weight=weights).history["loss"]).all()


ROWS_REFUSED = {
    "fewer labels": (X, Y[:5], "received user 8, age 8, y 5"),
    "fewer values of a feature": (X | {"age": X["age"][:5]}, Y, "received user 8, age 5, y 8"),
    "a feature less": ({"user": X["user"]}, Y, "age is missing"),
    "no rows": ({name: values[:0] for name, values in X.items()}, Y[:0], "takes at least one row"),
    "labels of text": (X, Y.astype(str), "Labels must be numbers .*received string: write 0 and 1"),
    "labels above 1": (X, Y + 1, "Labels must be numbers from 0 to 1"),
    "labels that are missing": (X, Y * np.nan, "Labels must be numbers from 0 to 1"),
    "labels of two tasks": (X, np.c_[Y, Y], r"received the shape \[8, 2\]"),
}


@pytest.mark.parametrize(("x", "y", "said"), ROWS_REFUSED.values(), ids=ROWS_REFUSED)
def test_rows_that_do_not_belong_together(model, x, y, said):
    for act in (lambda: fit(model, x, y), lambda: model.evaluate(x, y, verbose=0), lambda: fit(model, validation_data=(x, y))):
        refused(act, said)


def test_series_of_different_orders_are_refused(model):
    x = {name: FRAME[name] for name in ("user", "age")}
    refused(lambda: fit(model, x, FRAME["click"], sample_weight=OTHER), "index of sample_weight is another than that of user")
    refused(lambda: fit(model, x, FRAME["click"][::-1]), "index of y is another than that of user: sort both alike")
    assert fit(model, x, FRAME["click"], sample_weight=pd.Series(ONES)).history["loss"]
    assert model.predict(x, verbose=0).shape == (ROWS, 1)


@pytest.mark.parametrize("weights", [{0: -1.0}, {1: np.nan}, {"0": 1.0}, {2: 1.0}, {0: "1"}, [1, 2], "balanced"], ids=str)
def test_class_weights_that_are_refused(model, weights):
    refused(lambda: fit(model, class_weight=weights), "`class_weight` is a dict of finite weights.*; received")


def test_class_weights_of_one_task(model):
    assert fit(model, class_weight={0: 1.0, 1: 3.0}).history["loss"]
    schema = Schema("two", (Label("a"), Label("b"), Categorical("user", buckets=50), MultiHot("tags", buckets=50)))
    two = compile_model(ctrlab.build("mmoe", schema, size="small"))
    x = {"user": X["user"], "tags": tf.ragged.constant([["a"]] * ROWS)}
    refused(
        lambda: fit(two, x, np.c_[Y, Y], class_weight={0: 1.0, 1: 3.0}), "for one task; the tasks are a, b: .*`sample_weight`"
    )


CLASSES = {
    "arrays": lambda model, x, y, **given: model.fit(x, y, shuffle=False, verbose=0, **given),
    "a Dataset": lambda model, *batch, **given: model.fit(tf.data.Dataset.from_tensors(batch), verbose=0, **given),
    "a generator": lambda model, *batch, **given: model.fit(iter([batch]), verbose=0, **given),
    "a PyDataset": lambda model, *batch, **given: model.fit(Sequenced(batch), verbose=0, **given),
    "a batch": lambda model, *batch, **given: model.train_on_batch(*batch, **given),
}


def one_step(how, labels, **given):
    model = compile_model(ctrlab.build("wdl", SCHEMA, size="small"))
    CLASSES[how](model, X, labels, **given)
    return model.get_weights()


@pytest.fixture(scope="module")
def weighted():
    return one_step("arrays", Y, sample_weight=np.where(Y, 3.0, 1.0))


@pytest.mark.parametrize("how", CLASSES)
def test_class_weights_are_those_of_the_rows_wherever_they_are_given(model, weighted, how):
    for ours, theirs in zip(one_step(how, Y[:, None].astype(np.float32), class_weight={1: 3.0}), weighted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with_shares = "for labels 0 and 1, and shares have no class; give each row its `sample_weight`; received labels 0.5"
    refused(lambda: CLASSES[how](model, X, Y * 0.5, class_weight={1: 3.0}), with_shares)
    refused(lambda: CLASSES[how](model, X, Y, class_weight={2: 3.0}), "`class_weight` is a dict")
    if how not in ("arrays", "a batch"):
        refused(lambda: CLASSES[how](model, X, Y, ONES, class_weight={1: 3.0}), "by class or by row")
        refused(lambda: CLASSES[how](model, X, class_weight={1: 3.0}), "Labels must be numbers .*received NoneType")


FIRST = {
    "labels of another number": (X, Y[:5]),
    "labels of text": (X, Y.astype(str)),
    "a feature less": ({"user": X["user"]}, Y),
    "weights of another number": (X, Y, ONES[:5]),
    "negative weights": (X, Y, -ONES),
}


def trained(first: tuple = ()):
    """The weights after one good batch; one that is refused may come first."""
    model = compile_model(ctrlab.build("wdl", SCHEMA, size="small"))
    if first:
        with pytest.raises(BadData):
            model.fit(tf.data.Dataset.from_tensors(first), verbose=0)
    model.fit(tf.data.Dataset.from_tensors((X, Y)), verbose=0)
    return [weight.numpy() for weight in model.weights]


@pytest.fixture(scope="module")
def wanted():
    return trained()


@pytest.mark.parametrize("batch", FIRST.values(), ids=FIRST)
def test_a_model_whose_first_batch_was_refused_trains_as_if_it_had_not_been(wanted, batch):
    for ours, theirs in zip(trained(batch), wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


class Sequenced(keras.utils.PyDataset):
    """Batches by their numbers."""

    def __init__(self, *batches, **options):
        super().__init__(**options)
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, place):
        return self.batches[place]


FORMS = r"A batch is \(features, labels\) or .*; received"
BATCHES_REFUSED = {
    "a frame": ((FRAME[["user", "age"]], Y), FORMS),
    "a matrix": ((np.zeros((ROWS, 2)), Y), FORMS),
    "four parts": ((X, Y, ONES, ONES), FORMS),
    "no labels": ((X,), "Labels must be numbers .*received NoneType"),
    "a feature less": (({"user": X["user"]}, Y), "age .*is missing|is missing in user"),
    "a number of two columns": ((X | {"age": tf.zeros((ROWS, 2))}, Y), r"'age' must be \[B\]"),
    "text for a number": ((X | {"age": X["user"]}, Y), "Column 'age' takes numbers"),
    "fewer labels": ((X, Y[:5]), "received (5 labels|user 8, age 8, y 5)"),
}
HOW = {
    "a generator": lambda batch: iter([batch]),
    "a Dataset": lambda batch: tf.data.Dataset.from_tensors(batch),
    "a PyDataset": Sequenced,
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", BATCHES_REFUSED)
def test_batches_that_are_refused(model, how, name):
    batch, said = BATCHES_REFUSED[name]
    if name == "a frame" and how == "a Dataset":
        batch = FRAME["age"], Y  # of a frame with texts it makes nothing
    refused(lambda: model.fit(HOW[how](batch), verbose=0), said)
    refused(lambda: model.evaluate(HOW[how](batch), verbose=0), said)


LATER_REFUSED = {
    "a feature less": (({"user": X["user"]}, Y), "the same features, .*; the first has age of numbers, .* another user of text"),
    "text for a number": ((X | {"age": X["user"]}, Y), "the same features, of the same kinds.*another age of text"),
    "lists": ((X | {"age": tf.ragged.constant([[1.0]] * ROWS)}, Y), "another age of lists of numbers"),
    "weights": ((X, Y, ONES), "another age of numbers, sample_weight, user of text, y: make them alike"),
    "a matrix": ((np.zeros((ROWS, 2)), Y), "A batch is"),
    "nothing": (None, "A batch is .*; received NoneType"),
    "labels above 1": ((X, Y + 2), "Labels must be numbers from 0 to 1"),
}


@pytest.mark.parametrize("sequenced", [Sequenced, lambda *batches: Sequenced(*batches, workers=2), lambda *b: iter(b)])
@pytest.mark.parametrize(("bad", "said"), LATER_REFUSED.values(), ids=LATER_REFUSED)
def test_a_later_batch_is_refused(model, sequenced, bad, said):
    refused(lambda: model.fit(sequenced(*[(X, Y)] * 4, bad), shuffle=False, verbose=0), said)
    refused(lambda: fit(model, validation_data=sequenced((X, Y), bad)), said)


def test_batches_of_python_may_have_lists_and_whole_numbers(model):
    whole = {"user": [*"ab"], "age": [1, 2]}
    for sequenced in (Sequenced, lambda *batches: iter(batches)):
        assert np.isfinite(model.fit(sequenced((X, Y), (whole, [0, 1])), shuffle=False, verbose=0).history["loss"]).all()
        assert model.predict(sequenced(X, whole), verbose=0).shape == (ROWS + 2, 1)


def test_at_least_one_batch(model):
    for nothing in (iter(()), tf.data.Dataset.from_tensors((X, Y)).take(0), Sequenced()):
        refused(lambda nothing=nothing: model.fit(nothing, verbose=0), "at least one batch")


ARGUMENTS_REFUSED = {
    "labels beside batches": ({"x": tf.data.Dataset.from_tensors((X, Y)), "y": Y}, "y beside them"),
    "both weights": ({"class_weight": {1: 2.0}, "sample_weight": ONES}, "by class or by row"),
    "class weights of shares": ({"y": Y * 0.5, "class_weight": {1: 2.0}}, "shares have no class; give each row"),
    "features alone for validation": ({"validation_data": X}, "`validation_data` is batches"),
    "four parts for validation": ({"validation_data": (X, Y, ONES, ONES)}, "received 4 parts"),
    "more than all rows": ({"validation_split": 1.5}, "share of the rows"),
    "all rows but none": ({"validation_split": 0.99}, "leaves each side a row at least; received 0.99 for 8 rows"),
    "a validation after no epoch": ({"validation_freq": 0}, "`validation_freq` is after how many epochs.*; received 0"),
    "validations after no epochs": ({"validation_freq": [2, 0]}, r"`validation_freq` is .*; received \[2, 0\]"),
    "an epoch in text": ({"initial_epoch": "1"}, "`initial_epoch` must be a whole number"),
    "a callback in text": (
        {"callbacks": ["stop"]},
        "`callbacks` is one of Keras's callbacks, .*; received 'stop'",
    ),
    "no batch size": ({"batch_size": 0}, "`batch_size` must be a whole number"),
    "epochs in text": ({"epochs": "2"}, "`epochs` must be a whole number"),
    "a missing word": ({"x": X | {"user": ["u", None] * 4}}, "'user' has others"),
    "a number for all rows": ({"x": X | {"age": 3.0}}, "'age' has others, or only one"),
    "dates": ({"x": X | {"age": np.array(["2026-11-28"] * ROWS, "datetime64[D]")}}, "'age' has others"),
}


@pytest.mark.parametrize(("given", "said"), ARGUMENTS_REFUSED.values(), ids=ARGUMENTS_REFUSED)
def test_arguments_that_are_refused(model, given, said):
    given = {"x": X, **({} if isinstance(given.get("x"), tf.data.Dataset) else {"y": Y}), "verbose": 0} | given
    with pytest.raises(CtrlabError, match=said) as caught:
        model.fit(**given)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("tags", [[["a"], ["b"]] * 4, [["a"], ["b", "c"]] * 4, pd.Series([["a"], ["b"]] * 4)], ids=str)
def test_lists_of_lists_are_ragged_whatever_their_lengths(tags):
    schema = Schema("own", (MultiHot("tags", buckets=50), Label("click")))
    lists = compile_model(ctrlab.build("wdl", schema, size="small"))
    ragged = tf.ragged.constant([*tags])
    np.testing.assert_array_equal(lists.predict({"tags": tags}, verbose=0), lists.predict({"tags": ragged}, verbose=0))


MASKED = np.ma.masked_array(np.arange(ROWS, dtype=np.float32), mask=[False, True] * (ROWS // 2))
AGE, LABELS, WEIGHTED = X | {"age": MASKED}, np.ma.masked_array(Y, MASKED.mask), np.ma.masked_array(ONES, MASKED.mask)
MASKS = {
    "fit": (lambda model: fit(model, AGE), "feature 'age'"),
    "fit, labels": (lambda model: fit(model, y=LABELS), "labels"),
    "fit, weights": (lambda model: fit(model, sample_weight=WEIGHTED), "sample weights"),
    "fit, validation": (lambda model: fit(model, validation_data=(AGE, Y)), "feature 'age'"),
    "a generator": (lambda model: model.fit(iter([(AGE, Y)]), verbose=0), "feature 'age'"),
    "a PyDataset": (lambda model: model.fit(Sequenced((AGE, Y)), verbose=0), "feature 'age'"),
    "evaluate": (lambda model: model.evaluate(X, LABELS, verbose=0), "labels"),
    "predict": (lambda model: model.predict(AGE, verbose=0), "feature 'age'"),
    "a batch": (lambda model: model.train_on_batch(AGE, Y), "feature 'age'"),
    "a batch to predict": (lambda model: model.predict_on_batch(AGE), "feature 'age'"),
    "a call": (lambda model: model(AGE), "feature 'age'"),
    "train": (lambda model: training.train(model, training.make_optimizer(model), [(AGE, Y)]), "feature 'age'"),
    "a metric": (lambda model: metrics.auc(ONES, LABELS), "labels"),
}


@pytest.mark.parametrize(("act", "what"), MASKS.values(), ids=MASKS)
def test_masked_values_are_refused(model, act, what):
    refused(lambda: act(model), f"Arrays have all their values; those of {what} have a masked one in row 1, counted from 0: ")


def test_masked_values_of_tables_are_missing_and_masks_of_nothing_are_none(model):
    whole, filled = np.ma.masked_array(MASKED.data), np.where(MASKED.mask, 0, MASKED.data)
    assert np.isfinite(fit(model, X | {"age": whole}, np.ma.masked_array(Y)).history["loss"]).all()
    scores = [training.score(model, {"user": FRAME["user"].tolist(), "age": age}) for age in (MASKED, filled)]
    np.testing.assert_array_equal(*scores)
