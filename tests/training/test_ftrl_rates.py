"""FTRL divides by its learning rate: 0 and below are refused in one sentence, wherever they come from, and nothing changes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import Embedding, EmbeddingVariable, Options, embedding_variables
from ctrlab.embedding.reference import ReferenceTable
from ctrlab.embedding.table import ops as table_ops
from ctrlab.errors import CtrlabError
from ctrlab.ops import sparse_update
from ctrlab.ops.references import sparse_update as definition
from ctrlab.training import TouchedRows

RULE_AND_CURE = r"FTRL divides by its learning rate, which must be above 0 and no denormal.*let a warm-up begin above 0"
REFUSED = {"zero": 0.0, "minus zero": -0.0, "negative": -0.1, "too small to be a normal number": 1e-40, "nan": np.nan}
RULE = sparse_update.Rule("ftrl")


def sparse(n=2):
    return tf.IndexedSlices(tf.ones((n, 2)), tf.range(1, n + 1, dtype=tf.int64), tf.constant([9, 2], tf.int64))


@pytest.mark.parametrize("rate", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("gradient", [sparse, lambda: tf.ones((9, 2))], ids=["sparse", "dense"])
@pytest.mark.parametrize("way", sparse_update.OP.ways.values(), ids=sparse_update.OP.ways)
def test_a_step_with_such_a_rate_is_refused(way, gradient, graph, rate):
    w = tf.Variable(tf.ones((9, 2)))
    slots = {name: tf.Variable(tf.fill((9, 2), value)) for name, value in RULE.slots.items()}
    gradient = gradient()

    def step(rate):
        way(RULE, [(w, slots, gradient)], rate, tf.constant(1.0))

    step = tf.function(step) if graph else step
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"learning rate(, which)? must be"):
        step(tf.constant(rate, tf.float32))
    assert (w.numpy() == 1).all()
    for name, slot in slots.items():
        assert (slot.numpy() == np.float32(RULE.slots[name])).all()
    step(tf.constant(0.1))
    assert np.isfinite(w.numpy()).all() and (w.numpy()[1:3] != 1).all()


@pytest.mark.parametrize("rate", REFUSED.values(), ids=REFUSED)
def test_embedding_variables_refuse_it(rate):
    table = EmbeddingVariable("items", 2)
    table.set_slots(RULE.slots)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"learning rate(, which)? must be"):
        table_ops.step(RULE, [(table, sparse())], tf.constant(rate, tf.float32), tf.constant(1, tf.int64))
    assert (table.stats().rows, table.stats().candidates) == (0, 0)
    table = ReferenceTable(2, Options(), lambda keys: np.ones((len(keys), 2)), RULE)
    with pytest.raises(CtrlabError, match=RULE_AND_CURE):
        table.update(np.array([1, 2]), np.ones((2, 2)), rate, 1)
    assert not table.rows and not table.candidates and not table.touched


@pytest.mark.parametrize("rate", [0.0, -0.1, np.nan])
def test_the_reference_refuses_it_too(rate):
    w, slots = np.ones(3), {"accumulator": np.ones(3), "linear": np.zeros(3)}
    with pytest.raises(CtrlabError, match=RULE_AND_CURE):
        definition.reference(RULE, [(w, slots, np.ones(3))], rate, 1)
    assert (w == 1).all() and (slots["accumulator"] == 1).all() and (slots["linear"] == 0).all()


@pytest.mark.parametrize("kind", ["sgd", "adagrad", "adam_async"])
@pytest.mark.parametrize("rate", [0.0, -0.1])
def test_others_take_it_as_tensorflow_does(kind, rate):
    rule = sparse_update.Rule(kind)
    moved = []
    for way in sparse_update.OP.ways.values():
        w = tf.Variable(tf.ones((9, 2)))
        slots = {name: tf.Variable(tf.fill((9, 2), value)) for name, value in rule.slots.items()}
        way(rule, [(w, slots, tf.ones((9, 2)))], tf.constant(rate), tf.constant(1.0))
        moved.append(w.numpy())
    np.testing.assert_allclose(*moved, rtol=1e-6)
    assert (moved[0] == 1).all() == (rate == 0)


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("fused", [False, True], ids=["baseline", "fused"])
@pytest.mark.parametrize("with_table", [False, True], ids=["dense", "with an embedding variable"])
def test_an_optimizer_that_is_refused_has_changed_nothing(with_table, fused, graph):
    schedule = keras.optimizers.schedules.PolynomialDecay(0.0, 10, end_learning_rate=0.1)
    optimizer = TouchedRows("ftrl", schedule, rungs=["lookup"] * fused)
    table = EmbeddingVariable("items", 2)
    owners = [keras.Variable(np.ones((9, 2), np.float32)), keras.Variable(np.ones(3, np.float32))] + [table.proxy] * with_table
    gradients = [sparse(), tf.ones(3)] + [sparse()] * with_table
    optimizer.build(owners)
    before = [v.numpy() for v in optimizer.variables]

    def step():
        optimizer.apply(gradients, owners)

    step = tf.function(step) if graph else step
    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError, match=RULE_AND_CURE):
            step()
        assert table.stats().rows == 0 and all((v.numpy() == 1).all() for v in owners[:2])
        for variable, value in zip(optimizer.variables, before):
            np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.path)


@pytest.mark.parametrize("fused", [False, True], ids=["baseline", "fused"])
def test_fit_with_a_warm_up_from_0_is_refused(fused):
    keys = keras.Input((3,), dtype="int64")
    rows = keras.layers.Flatten()(Embedding(4)(keys))
    model = keras.Model(keys, keras.layers.Dense(1)(rows))
    warm_up = keras.optimizers.schedules.PolynomialDecay(0.0, 10, end_learning_rate=0.1)
    model.compile(TouchedRows("ftrl", warm_up, rungs=["lookup"] * fused), loss="mse")
    before = model.get_weights()
    with pytest.raises(tf.errors.InvalidArgumentError, match=RULE_AND_CURE):
        model.fit(np.arange(96).reshape(32, 3), np.ones(32, np.float32), batch_size=8, verbose=0)
    assert [table.stats().rows for table in embedding_variables(model)] == [0]
    assert int(model.optimizer.iterations.numpy()) == 0
    for now, then in zip(model.get_weights(), before):
        np.testing.assert_array_equal(now, then)
