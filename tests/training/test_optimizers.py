"""The Keras optimizer is the definition of `ops.sparse_update`: by `apply`, by `fit`, saved and loaded."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.models import Hyper
from ctrlab.ops import sparse_update
from ctrlab.ops.references import sparse_update as definition
from ctrlab.training.optimizers import KINDS, TouchedRows, make_optimizer

IDS = [np.array([3, 3, 3, 7]), np.array([7, 0, 7, 0]), np.array([3, 1, 1, 1])]


def table_steps(optimizer):
    """Three steps on a table [9, 2] whose gradient is the looked-up rows plus one; (start, end)."""
    start = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    table = keras.Variable(start, name="table")
    optimizer.build([table])
    for ids in IDS:
        with tf.GradientTape() as tape:
            rows = tf.gather(table.value, ids)
            loss = tf.reduce_sum(0.5 * rows**2 + rows)
        optimizer.apply(tape.gradient(loss, [table.value]), [table])
    return start, table.numpy()


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fused", [False, True])
def test_steps_are_the_definition(fused, kind, clip):
    start, end = table_steps(TouchedRows(kind, 0.1, clip, rungs=["lookup"] * fused))
    rule = sparse_update.Rule(kind)
    w = start.astype(np.float64)
    slots = {name: np.full_like(w, value) for name, value in rule.slots.items()}
    for step, ids in enumerate(IDS, start=1):
        definition.reference(rule, [(w, slots, (ids, w[ids] + 1))], 0.1, step, clip)
    np.testing.assert_allclose(end, w, rtol=1e-5, atol=1e-6)
    untouched = [2, 4, 5, 6, 8]
    np.testing.assert_array_equal(end[untouched], start[untouched])


def test_keras_own_optimizer_does_not_merge():
    """The trap this optimizer is there for: if Keras mends it, the lesson on it must change."""
    _, merged = table_steps(TouchedRows("adagrad", 0.1))
    _, theirs = table_steps(keras.optimizers.Adagrad(0.1, epsilon=0.0))
    assert np.abs(merged - theirs).max() > 0.01


def test_learning_rate_schedule_is_followed():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1], [0.1, 0.0])
    w = keras.Variable([1.0])
    optimizer = TouchedRows("sgd", schedule)
    for _ in range(4):
        optimizer.apply([tf.constant([1.0])], [w])
    np.testing.assert_allclose(w.numpy(), [1 - 2 * 0.1])  # steps 0 and 1 lie in the first piece


def test_config_makes_the_same_optimizer_again():
    optimizer = TouchedRows("ftrl", 0.2, clip_norm=5.0, rule={"l1": 0.1}, rungs=["lookup"])
    config = keras.saving.serialize_keras_object(optimizer)
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == optimizer.get_config()
    assert again.rule == optimizer.rule and again.rungs == {"lookup"}


@pytest.mark.parametrize("fused", [False, True])
def test_a_config_of_an_older_version_loads(fused):
    config = TouchedRows("sgd").get_config()
    del config["rungs"]
    assert TouchedRows.from_config(config | {"fused": fused}).rungs == ({"lookup"} if fused else set())


def test_unknown_kind_names_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'adam_async'"):
        TouchedRows("adam")


def test_rungs_are_those_of_the_ladder():
    assert TouchedRows(rungs="lookup").rungs == {"lookup"} and TouchedRows(rungs="stock").rungs == {"stock"}
    with pytest.raises(UnknownName, match=r"Unknown optimization 'lokup'.*Did you mean 'lookup'"):
        TouchedRows(rungs=["lokup"])
    with pytest.raises(CtrlabError, match="is of level 'input'"):
        TouchedRows(rungs=["parquet"])
    with pytest.raises(CtrlabError, match="'stock' goes alone"):
        TouchedRows(rungs=["stock", "lookup"])


def test_made_from_a_models_hyper():
    model = SimpleNamespace(hyper=Hyper("adagrad", 0.1, clip_norm=5.0), rungs={"lookup"})
    optimizer = make_optimizer(model)
    assert (optimizer.kind, optimizer.clip_norm, float(optimizer.learning_rate)) == ("adagrad", 5.0, pytest.approx(0.1))
    assert optimizer.rungs == {"lookup"}
