"""A step that is refused did not happen: tables, variables, slots and counts are as before, and the batch can come again."""

import resource

import keras
import numpy as np
import pytest
import tensorflow as tf
from every_byte import changed, held

from ctrlab.embedding import Embedding, Initializer, Options, Storage
from ctrlab.errors import CtrlabError
from ctrlab.training import TouchedRows, train_step

REFUSED = (CtrlabError, tf.errors.OpError)
HOW = ["eager", "function", "fit"]
BATCH = 16
START = Initializer("normal", 0.0, 0.3)


@tf.custom_gradient
def poisoned(rows, by):
    """`rows`, whose gradient is multiplied by `by`."""
    return rows, lambda d: (d * by, None)


class Network(keras.Model):
    """Tables a and b, a hashed table and a kernel. The gradient of b is multiplied by the feature "by"."""

    def __init__(self, options=None):
        super().__init__(name="network")
        options = options or Options(START)
        self.embedding = Embedding(4, {"a": "a", "b": "b"}, "sum", options, name="tables")
        self.hashed = self.add_weight(shape=(50, 4), initializer=keras.initializers.RandomNormal(seed=1), name="hashed")
        self.top = self.add_weight(shape=(4, 1), initializer=keras.initializers.RandomNormal(seed=2), name="top")
        self.built = True

    def call(self, features, training=False):
        found = self.embedding({"a": features["a"], "b": features["b"]}, training=training)
        hashed = tf.reduce_sum(tf.gather(self.hashed.value, features["a"] % 50), 1)
        return tf.matmul(found["a"] + poisoned(found["b"], features["by"][:1]) + hashed, self.top.value)


def batch(number, by=1.0):
    rng = np.random.default_rng(number)
    features = {name: tf.constant(rng.integers(0, 200, (BATCH, 3))) for name in "ab"}
    features["by"] = tf.fill([BATCH, 1], by)
    return features, tf.constant(rng.integers(0, 2, (BATCH, 1)).astype("f4"))


def run(how, optimizer, options=None):
    """A new model and its step on a batch."""
    model = Network(options)
    if how == "function":
        step = train_step(model, optimizer)
        return model, lambda data: step(*data)
    model.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True), run_eagerly=how == "eager")
    optimizer.build(model.trainable_variables)
    return model, lambda data: model.fit(tf.data.Dataset.from_tensors(data), verbose=0)


@pytest.mark.parametrize("how", HOW)
def test_a_gradient_that_table_b_refuses_changes_nothing_and_the_batch_can_come_again(how):
    never, once = (TouchedRows("adagrad", 0.1, rungs=["lookup"]) for _ in range(2))
    (clean, step), (model, refusing) = run(how, never), run(how, once)
    for number in range(6):
        step(batch(number))
        for _ in range(5):  # in a graph what is not ordered comes now before, now after
            before = held(model, once)
            with pytest.raises(REFUSED, match="b received nan or inf"):
                refusing(batch(number, np.nan))
            assert changed(before, held(model, once)) == []
        refusing(batch(number))
    assert changed(held(clean, never), held(model, once)) == []


def slices(keys, width=4):
    return tf.IndexedSlices(tf.ones([3, width]), tf.constant(keys, tf.int64), tf.constant([50, width], tf.int64))


GOOD = {"hashed": slices([1, 2, 3]), "top": tf.ones([4, 1]), "a": slices([1, 2, 3]), "b": slices([1, 2, 3])}
BAD = {
    "ids too large": (
        {"hashed": slices([1, 50, 3])},
        r"variable hashed must be in \[0, 50\); nothing was changed; received ids from\] \[1\] \[to\] \[50\]",
    ),
    "ids below 0": (
        {"hashed": slices([1, 2, -2])},
        r"variable hashed must be in \[0, 50\); nothing was changed; received ids from\] \[-2\] \[to\] \[2\]",
    ),
    "an id of -1": (
        {"hashed": slices([1, -1, 2])},
        r"variable hashed must be in \[0, 50\); nothing was changed; received ids from\] \[-1\] \[to\] \[2\]",
    ),
    "rows of another width": (
        {"hashed": slices([1, 2, 3], 5)},
        r"gradient of variable hashed must be float32 \(None, 4\); received float32 \(3, 5\)",
    ),
    "another shape": (
        {"top": tf.ones([4, 2])},
        r"gradient of variable top must be float32 \(4, 1\); received float32 \(4, 2\)",
    ),
    "another type": (
        {"top": tf.ones([4, 1], tf.float64)},
        r"gradient of variable top must be float32 \(4, 1\); received float64 \(4, 1\)",
    ),
}
"""{what: (the gradient, what is said of it)}."""


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("kind", ["sgd", "adam_async"])
def test_a_gradient_that_a_dense_variable_refuses_changes_nothing(kind, fused, in_graph, what):
    bad, sentence = BAD[what]
    model, optimizer = Network(), TouchedRows(kind, 0.1, rungs=["lookup"] * fused)
    variables = {v.name: v for v in model.trainable_variables}

    def apply(gradients, order=tuple(GOOD)):
        def step():
            optimizer.apply([gradients[name] for name in order], [variables[name] for name in order])

        (tf.function(step) if in_graph else step)()

    optimizer.build(model.trainable_variables)
    apply(GOOD)
    before = held(model, optimizer)
    for order in (["a", "b", "hashed", "top"], ["top", "hashed", "a", "b"], ["hashed", "top"], ["top", "hashed"]):
        with pytest.raises(REFUSED, match=sentence):
            apply(GOOD | bad, order)
        assert changed(before, held(model, optimizer)) == [], order
    apply(GOOD)
    assert int(optimizer.iterations) == 2


@pytest.mark.parametrize("fused", [False, True])
def test_a_shape_that_only_the_step_knows(fused):
    w, v = (keras.Variable(np.ones((4, 1), np.float32)) for _ in range(2))
    optimizer = TouchedRows("sgd", 0.1, rungs=["lookup"] * fused)
    optimizer.build([w, v])

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32)])
    def step(gradient):
        optimizer.apply([tf.ones([4, 1]), gradient], [w, v])

    for shape in ([4, 2], [1], []):
        with pytest.raises(REFUSED, match=r"is not compatible with expected shape \[4,1\]"):
            step(tf.ones(shape))
        assert (w.numpy() == 1).all() and (v.numpy() == 1).all() and int(optimizer.iterations) == 0
    step(tf.ones([4, 1]))
    assert int(optimizer.iterations) == 1


@pytest.mark.parametrize("with_shape", [False, True])
@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_a_sparse_gradient_that_comes_from_elsewhere(fused, in_graph, with_shape):
    """It may come from a queue or another tape: its op is unknown, and its dense shape may be missing."""
    variable, optimizer = keras.Variable(np.ones((5, 2), np.float32)), TouchedRows("sgd", 0.5, rungs=["lookup"] * fused)
    optimizer.build([variable])
    gradient = tf.IndexedSlices(tf.ones([3, 2]), tf.constant([1, 4, 1]), tf.constant([5, 2]) if with_shape else None)

    def step(gradient):
        optimizer.apply([gradient], [variable])

    (tf.function(step) if in_graph else step)(gradient)
    np.testing.assert_array_equal(variable, np.ones((5, 2)) - 0.5 * np.array([[0], [2], [0], [0], [1]]))


@pytest.mark.parametrize("scale", [0, 2.0])
@pytest.mark.parametrize("how", HOW)
def test_a_full_disk_below_table_b_leaves_table_a_as_it_was(how, scale, tmp_path):
    options = {name: Options(START, storage=storage) for name, storage in {"a": None, "b": Storage(str(tmp_path), 500)}.items()}
    never, once = (TouchedRows("adagrad", 0.1, rungs=["lookup"], loss_scale=scale) for _ in range(2))
    (clean, step), (model, refusing) = run(how, never), run(how, once, options)

    def many(number):
        features, labels = batch(number)
        keys = tf.reshape(tf.range(BATCH * 40, dtype=tf.int64), [BATCH, 40]) + BATCH * 40 * number
        return features | {"b": keys}, labels

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    for number in range(200):
        before = held(model, once)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limit[1]))
        try:
            refusing(many(number))
        except REFUSED as refusal:
            assert "File too large" in str(refusal)
            break
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        step(many(number))
    else:
        pytest.fail("the disk was never full")
    assert changed(before, held(model, once)) == []
    refusing(many(number))
    step(many(number))
    assert changed(held(clean, never), held(model, once)) == []
