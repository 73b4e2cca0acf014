"""An own Keras model is exported like one of the six, and answered by the processor as by the model."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab import serving
from ctrlab.embedding import Embedding, embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.serving.processor import Processor
from ctrlab.serving.publishing import Publisher
from ctrlab.training import TouchedRows, train

HISTORIES = [[1, 2], [], [-1, (1 << 63) - 1, 7], [5]]
FEATURES = {
    "item": tf.constant([1, -1, (1 << 63) - 1, -(1 << 63)], tf.int64),
    "history": tf.ragged.constant(HISTORIES, dtype=tf.int64),
    "price": tf.constant([[0.5], [1.5], [-2.0], [0.0]]),
    "scores": tf.constant(np.random.default_rng(0).normal(size=(4, 3)), tf.float32),
}
LABELS = tf.constant([[1.0], [0.0], [1.0], [0.0]])


def columns():
    return {
        "item": keras.Input((), dtype="int64", name="item"),
        "history": keras.Input((None,), dtype="int64", ragged=True, name="history"),
        "price": keras.Input((1,), name="price"),
        "scores": keras.Input((3,), name="scores"),
    }


def with_our_layer():
    """Trained for a few steps, so that its table has rows."""
    given = columns()
    layer = Embedding(4, {"item": "items", "history": "items"}, {"item": "rows", "history": "mean"})
    found = layer({name: given[name] for name in layer.columns})
    joined = keras.layers.Concatenate()([found["item"], found["history"], given["price"], given["scores"]])
    hidden = keras.layers.BatchNormalization()(keras.layers.Dense(8, activation="relu")(joined))
    model = keras.Model(given, keras.layers.Dense(1, activation="sigmoid", name="clicked")(hidden), name="own")
    model.optimizer = TouchedRows("adam_async", 0.05)
    train(model, model.optimizer, [(FEATURES, LABELS)] * 5)
    return model


def plain(outputs=1):
    given = {name: column for name, column in columns().items() if name != "history"}
    words = keras.layers.Embedding(10, 3)(keras.ops.mod(given["item"], 10))
    joined = keras.layers.Concatenate()([words, given["price"], given["scores"]])
    heads = [keras.layers.Dense(1, activation="sigmoid", name=f"head{k}")(joined) for k in range(outputs)]
    return keras.Model(given, heads[0] if outputs == 1 else heads)


def expected(model):
    given = {name: FEATURES[name] for name in model.input}
    return np.concatenate([out.numpy() for out in keras.tree.flatten(model(given, training=False))], 1)


def request(names):
    rows = []
    for b in range(4):
        row = {"item": int(FEATURES["item"][b]), "history": HISTORIES[b], "price": float(FEATURES["price"][b, 0])}
        row["scores"] = FEATURES["scores"][b].numpy().tolist()
        rows.append({name: row[name] for name in names})
    return json.dumps({"instances": rows}).encode()


def answers(folder, names):
    with Processor(folder) as processor:
        rows = json.loads(processor.process(request(names), "json").data)["predictions"]
    return np.array([np.concatenate([row[name] for name in sorted(row)]) if isinstance(row, dict) else row for row in rows])


def test_a_model_with_our_layer_is_served(tmp_path):
    model = with_our_layer()
    assert embedding_variables(model)[0].rows() == 7
    folder = serving.export_model(model, tmp_path / "own", rows=[FEATURES])
    found = serving.verify(folder)
    assert [(c.column, c.dtype, c.ragged, c.shape) for c in found.inputs] == [
        ("item", "int64", False, ()),
        ("history", "int64", True, ()),
        ("price", "float32", False, (1,)),
        ("scores", "float32", False, (3,)),
    ]
    assert found.tasks == ("clicked",) and found.model == {} and not found.rows_apart
    np.testing.assert_allclose(found.warm_up[0], expected(model), atol=1e-6)
    np.testing.assert_allclose(answers(tmp_path / "own", FEATURES), expected(model), atol=1e-6)


def test_a_fresh_process_that_imports_the_package_loads_it(tmp_path):
    model = with_our_layer()
    folder = serving.export_model(model, tmp_path / "own")
    code = """
import ctrlab, tensorflow as tf, sys
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
answer = serve(**{
    "item": tf.constant([1], tf.int64), "price": tf.constant([[0.5]]), "scores": tf.constant([[0.1, 0.2, 0.3]]),
    "history/values": tf.constant([1, 2], tf.int64), "history/row_splits": tf.constant([0, 2], tf.int64),
})
print(float(answer["probabilities"][0, 0]))
"""
    ran = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    one = {
        "item": tf.constant([1], tf.int64),
        "history": tf.ragged.constant([[1, 2]], dtype=tf.int64),
        "price": tf.constant([[0.5]]),
        "scores": tf.constant([[0.1, 0.2, 0.3]]),
    }
    assert float(ran.stdout) == pytest.approx(float(model(one)[0, 0]), abs=1e-6)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_model_without_ops_of_ours_is_a_stock_export(tmp_path, outputs):
    model = plain(outputs)
    folder = serving.export_model(model, tmp_path / "plain", rows=[FEATURES])
    assert b"Ctrlab>" not in (folder / "saved_model.pb").read_bytes() and not (folder / "assets").exists()
    assert serving.verify(folder).tasks == tuple(f"head{k}" for k in range(outputs))
    np.testing.assert_allclose(answers(tmp_path / "plain", model.input), expected(model), atol=1e-6)


def test_a_single_input_and_an_output_of_several_tasks(tmp_path):
    given = keras.Input((3,), name="scores")
    model = keras.Model(given, keras.layers.Dense(2, activation="sigmoid", name="tasks")(given))
    folder = serving.export_model(model, tmp_path / "m", rows=[FEATURES])
    assert serving.verify(folder).tasks == ("tasks_0", "tasks_1")
    np.testing.assert_allclose(answers(tmp_path / "m", ["scores"]), model(FEATURES["scores"]), atol=1e-6)


def test_a_request_with_a_list_of_another_length_is_refused(tmp_path):
    serving.export_model(plain(), tmp_path / "plain")
    rows = [{"item": 1, "price": 0.5, "scores": [1.0, 2.0]}, {"item": 1, "price": 0.5, "scores": [1.0, 2.0, 3.0, 4.0]}]
    with (
        Processor(tmp_path / "plain") as processor,
        pytest.raises(CtrlabError, match=r"column scores .*3 values"),
    ):
        processor.process(json.dumps({"instances": rows}).encode(), "json")


def test_a_list_that_is_left_out_is_empty(tmp_path):
    model = with_our_layer()
    serving.export_model(model, tmp_path / "ctr")
    names = [*columns()]
    given = json.loads(request(names))["instances"]
    with Processor(tmp_path / "ctr", poll_seconds=0) as processor:

        def of(history):
            rows = [{name: value for name, value in row.items() if name != "history"} | history for row in given]
            return processor.process(json.dumps({"instances": rows}).encode(), "json").data

        assert of({}) == of({"history": None}) == of({"history": []}) != of({"history": [1]})


def test_updates_follow_the_training_of_an_own_model(tmp_path):
    model = with_our_layer()
    optimizer = model.optimizer
    with Publisher(tmp_path / "own", model, optimizer, every=3_600, rows=[FEATURES]) as publisher:
        publisher.publish()
        publisher.wait()
        with Processor(tmp_path / "own", poll_seconds=0.05) as processor:
            train(model, optimizer, [(FEATURES, LABELS)] * 3)
            publisher.publish()
            publisher.wait()
            assert publisher.published.versions == publisher.published.updates == 1 and publisher.published.rows == 7
            while processor.info()["update"] < 1:
                pass
            found = json.loads(processor.process(request(FEATURES), "json").data)["predictions"]
        np.testing.assert_allclose(found, expected(model), atol=1e-6)


class Subclassed(keras.Model):
    def call(self, x):
        return x


def normalized(width):
    """A model that reads constants of a layer: TensorFlow makes them a part of a graph up to 128 numbers, and captures more."""
    values = np.random.default_rng(1).normal(3, 2, (50, width)).astype(np.float32)
    layer = keras.layers.Normalization()
    layer.adapt(values)
    return keras.Sequential([keras.Input((width,), name="x"), layer, keras.layers.Dense(2, name="tasks")]), values[:4]


@pytest.mark.parametrize("width", [3, 200])
def test_a_sequential_model_with_a_normalization_is_exported(tmp_path, width):
    model, values = normalized(width)
    folder = serving.export_model(model, tmp_path / "m", rows=[{"x": tf.constant(values)}])
    found = serving.verify(folder)
    assert found.tasks == ("tasks_0", "tasks_1") and [c.column for c in found.inputs] == ["x"]
    np.testing.assert_allclose(found.warm_up[0], model(values), rtol=1e-5, atol=1e-5)


def test_constants_stand_beside_the_weights_of_an_export_with_our_ops(tmp_path):
    normal, values = normalized(200)
    keys = keras.Input((), dtype="int64", name="key")
    joined = keras.layers.Concatenate()([normal.layers[0](normal.inputs[0]), Embedding(4)(keys)])
    model = keras.Model([normal.inputs[0], keys], keras.layers.Dense(1)(joined))
    features = {"x": tf.constant(values), "key": tf.range(4, dtype=tf.int64)}
    folder = serving.export_model(model, tmp_path / "m", rows=[features])
    expected = model([features["x"], features["key"]])
    np.testing.assert_allclose(serving.verify(folder).warm_up[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [lambda x: x * 0.5, lambda x: 2 * x, lambda x: x * np.ones(3, np.float32)])
def test_a_model_may_end_in_a_product_with_a_constant(tmp_path, scale):
    """Keras calls such a product sparse, and it is not."""
    given = keras.Input((3,), name="x")
    model = keras.Model(given, scale(given))
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    np.testing.assert_allclose(serving.verify(serving.export_model(model, tmp_path / "m", rows=[{"x": x}])).warm_up[0], scale(x))


def odd_models():
    given = keras.Input((3,), name="x")
    yield "nope", r"^What is exported is a Keras model; received 'nope': give "
    yield None, r"^What is exported is a Keras model; received None: give "
    other = keras.Input((3,), name="y")
    both = keras.layers.Dense(1)(keras.layers.Concatenate()([given, other]))
    yield keras.Model({"xy": {"x": given, "y": other}}, both), r"its columns in one dict, or in a list; those of .* are nested: "
    shared = keras.layers.Dense(1, name="head")
    yield (
        keras.Model([given, other], [shared(given), shared(other)]),
        r"named by their layers; .* the outputs head, head: end each ",
    )
    word = keras.Input((), dtype="string", name="x")
    place = keras.layers.StringLookup(vocabulary=["a", "b"], name="places")(word)
    yield (
        keras.Model(word, keras.layers.Dense(1)(keras.layers.Embedding(3, 2)(place))),
        r"reads what is none, such as the vocabulary of layer places: look words up before the model, ",
    )
    yield Subclassed(name="sub"), r"^A model that is exported says its columns by keras\.Input; sub, a Subclassed, does not: "
    sparse = keras.Input((3,), name="x", sparse=True)
    yield keras.Model(sparse, keras.layers.Dense(1)(sparse)), r"input 'x' of .* the shape \(None, 3\), sparse: give it shape "
    odd = keras.Input((3,), name="x", dtype="bfloat16")
    yield keras.Model(odd, keras.layers.Dense(1)(odd)), r"column is float16, .*; input 'x' of .* is bfloat16\.$"
    nested = {"a": {"b": keras.layers.Dense(1)(given)}}
    yield keras.Model(given, nested), r"gives a tensor, a list or a dict of tensors; those of .* are nested: "
    yield (
        keras.Model({1: given, 2: other}, both),
        r"^Columns are named by text; .* has the input 1: make it a text, such as ",
    )
    yield keras.Model(given, {0: keras.layers.Dense(1)(given)}), r"has the output 0: make it a text"
    total = keras.layers.Lambda(lambda x: tf.reduce_sum(x, keepdims=True), output_shape=(1,), name="sum")(given)
    yield (
        keras.Model(given, total),
        r"a row of each output per example, .* says \(None, 1\), and for 3 rows it is \(1, 1\)",
    )
    scalar = keras.layers.Lambda(tf.reduce_mean, output_shape=(1,))(given)
    yield keras.Model(given, [keras.layers.Dense(1, name="good")(given), scalar]), r"output 'lambda.*' of .* it is \(\): mend "
    same = keras.layers.Identity(dtype="string")(word)
    yield keras.Model(word, {"word": same}), r"output 'word' of .* is string: leave it out\.$"
    for call, what in (
        (tf.RaggedTensor.from_tensor, "RaggedTensor"),
        (tf.sparse.from_dense, "SparseTensor"),
        (tf.strings.as_string, r"string, of the shape \(None, 3\)"),
        (lambda x: tf.cast(x, tf.complex64), "complex64"),
        (lambda x: tf.numpy_function(np.copy, [x], tf.float32), "float32, of the shape <unknown>"),
        (lambda x: None, "NoneType"),
    ):
        other = keras.layers.Lambda(call, output_shape=(3,))(given)  # Keras is told of an array of numbers
        yield (
            keras.Model(given, {"good": given, "odd": other}),
            rf"gives arrays of numbers .* output 'odd' of .* is {what}.*: make",
        )


@pytest.mark.parametrize(("model", "said"), list(odd_models()))
def test_what_can_not_be_served_is_one_sentence(tmp_path, model, said):
    with pytest.raises(CtrlabError, match=said):
        serving.export_model(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()
