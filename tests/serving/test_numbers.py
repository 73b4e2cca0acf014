"""One rule for numbers wherever an answer is made: they are finite, and what a type can't hold is refused, never changed."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from wire_requests import by_columns, infer_json, infer_request, message

from ctrlab import models, serving, training
from ctrlab.errors import CtrlabError
from ctrlab.models import raw
from ctrlab.schema import Categorical, Label, Numeric, NumericList, Schema
from ctrlab.serving import warm_up, wire
from ctrlab.serving.own import subject
from ctrlab.serving.processor import Code, Processor, Refused

SCHEMA = Schema(
    "own",
    (
        Label("clicked"),
        Numeric("age"),
        Numeric("spent", transform="log1p", low=-1.0),
        Numeric("share", transform="minmax", low=-2.0, high=10.0),
        NumericList("prices"),
        Categorical("city", buckets=50),
        Categorical("shelf", encoding="identity", buckets=9),
    ),
    user_columns=("age", "city"),
)
ODD = [np.nan, np.inf, -np.inf]
FEATURES = {
    "age": tf.constant([1.0, 2.0]),
    "spent": tf.constant([3.0, 4.0]),
    "share": tf.constant([0.0, 9.0]),
    "prices": tf.ragged.constant([[1.0], [2.0, 3.0]], dtype=tf.float32),
    "city": tf.constant(["Rome", "Oslo"]),
    "shelf": tf.constant([1, 8], tf.int64),
}


def own():
    given = {
        "x": keras.Input((2,), name="x"),
        "n": keras.Input((), dtype="int32", name="n"),
        "h": keras.Input((), dtype="float16", name="h"),
    }
    hidden = keras.layers.Dense(8, activation="relu")(given["x"])
    return keras.Model(given, keras.layers.Dense(1, activation="sigmoid")(hidden))


@pytest.fixture(scope="module", params=["stock", "all", "int8_rows", "ids", "users", "own"])
def version(request, tmp_path_factory):
    """A version's processor, its SavedModel's signature, and the tensors of a right request."""
    out = tmp_path_factory.mktemp("models") / "ctr"
    model = own() if request.param == "own" else models.build("dlrm", SCHEMA, "stock" if request.param == "stock" else "all")
    folder = serving.export_model(
        model,
        out,
        inputs="ids" if request.param == "ids" else "text",
        share_users=request.param == "users",
        optimizations=request.param if request.param == "int8_rows" else "none",
    )
    columns = serving.read_manifest(folder).inputs
    own_features = {"x": tf.ones([2, 2]), "n": tf.constant([1, 2]), "h": tf.zeros([2], tf.float16)}
    tensors = serving.inputs.to_tensors(own_features if request.param == "own" else FEATURES, columns, subject(model))
    with Processor(out, poll_seconds=0) as processor:
        yield processor, tf.saved_model.load(str(folder)).signatures["serving_default"], tensors


def ways(tensors):
    """(format, body, header) of a request over each protocol."""
    yield "predict", warm_up.predict_request("ctr", tensors), -1
    yield "infer", infer_request(tensors), -1
    yield "infer_json", *infer_json(tensors, True)


def with_odd(tensor, odd):
    values = tensor.numpy().copy()
    values.flat[-1] = odd
    return tf.constant(values)


@pytest.mark.parametrize("odd", ODD)
def test_a_number_that_is_not_finite_is_refused_over_every_protocol(version, odd):
    processor, signature, tensors = version
    floats = [name for name, tensor in tensors.items() if tensor.dtype.is_floating]
    assert floats
    for name in floats:
        wrong = tensors | {name: with_odd(tensors[name], odd)}
        for format, body, header in ways(wrong):
            with pytest.raises(
                Refused, match=f"A value of {name}, row .*must be a finite number; received NaN or infinity"
            ) as no:
                processor.process(body, format, header)
            assert no.value.code == Code.INVALID
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Numbers must be finite.*is not"):
            signature(**wrong)
    for format, body, header in ways(tensors):
        assert processor.process(body, format, header).data


@pytest.mark.parametrize("token", ["1e39", "-1e39", "1e999", "NaN", "Infinity", '"NaN"', '"true"'])
def test_a_number_that_float32_does_not_hold_is_refused_in_json(version, token):
    processor, _, tensors = version
    name = (
        next(name for name, tensor in tensors.items() if tensor.dtype == tf.float32 and tensor.shape.rank == 1)
        if ("age" in tensors)
        else "h"
    )
    body = json.loads(by_columns(tensors))
    body["inputs"][name][0] = "HERE"
    with pytest.raises(Refused) as refused:
        processor.process(json.dumps(body).replace('"HERE"', token).encode(), "json")
    assert refused.value.code == Code.INVALID and "\n" not in str(refused.value)


@pytest.mark.parametrize("token", ["2.5", "1e20", "9223372036854775808", "-9223372036854775809", '"3"', "true", "-1", "9"])
def test_an_id_that_is_none_is_refused(version, token):
    processor, signature, tensors = version
    if "shelf" not in tensors:
        return
    body = json.loads(by_columns(tensors))
    body["inputs"]["shelf"][0] = "HERE"
    with pytest.raises(Refused) as refused:
        processor.process(json.dumps(body).replace('"HERE"', token).encode(), "json")
    assert refused.value.code == Code.INVALID and "\n" not in str(refused.value)
    if token in ("-1", "9"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="shelf"):
            signature(**tensors | {"shelf": tf.constant([int(token), 1], tensors["shelf"].dtype)})


def test_a_whole_number_that_a_type_does_not_hold_is_refused(tmp_path):
    kinds = ["int8", "int16", "int32", "uint8", "uint16", "uint32", "bool"]
    given = {kind: keras.Input((), dtype=kind, name=kind) for kind in kinds}
    summed = keras.layers.Lambda(lambda x: sum(keras.ops.cast(value, "float64")[:, None] for value in x.values()))(given)
    serving.export_model(keras.Model(given, summed), tmp_path / "ctr")
    with Processor(tmp_path / "ctr", poll_seconds=0) as processor:
        zeros = {kind: tf.zeros([1], kind) for kind in kinds}
        for kind in kinds:
            most = 1 if kind == "bool" else np.iinfo(kind).max
            for number in [most + 1] + ([-1] if kind.startswith("u") else []):
                if kind != "bool":
                    body = {"inputs": {name: [number if name == kind else False if name == "bool" else 0] for name in kinds}}
                    with pytest.raises(Refused, match=f"A value of {kind}, row 0, must be a whole number"):
                        processor.process(json.dumps(body).encode(), "json")
                others = {name: zero for name, zero in zeros.items() if name != kind}
                field = {"bool": 11, "uint32": 16}.get(kind, 7)
                proto = tf.make_tensor_proto(np.zeros(1, kind))
                for name in ("int_val", "bool_val", "uint32_val", "tensor_content"):
                    proto.ClearField(name)
                tensor = proto.SerializeToString() + bytes([*wire.varint(field << 3)]) + wire.varint(number % (1 << 64))
                entry = message(2, message(1, kind.encode()) + message(2, tensor))
                with pytest.raises(Refused, match=f"A value of {kind} must be"):
                    processor.process(warm_up.predict_request("ctr", others) + entry, "predict")
        flag = infer_json(zeros | {"bool": tf.constant([True])}, True)
        assert processor.process(flag[0], "infer_json", flag[1]).data
        with pytest.raises(Refused, match="A value of bool, row 0, must be 1 or 0"):
            processor.process(flag[0].replace(b"\1", b"\2"), "infer_json", flag[1])


def with_number(column, odd):
    """A batch with this number in a column, in float64 as a user may have it."""
    values = tf.constant([1.0, odd], tf.float64)
    if column == "prices":
        values = FEATURES[column].with_flat_values(tf.constant([1.0, 2.0, odd], tf.float64))
    return FEATURES | {column: values}


@pytest.mark.parametrize("rung", ["stock", "all"])
def test_a_model_that_is_called_refuses_them_too(rung):
    """TensorFlow's product with a ReLU would make 0 of NaN."""
    model = models.build("wdl", SCHEMA, rung, size="small")
    predict = training.predict_step(model)
    for column in ("age", "spent", "prices"):
        for odd in (*ODD, 1e300):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Numbers must be finite"):
                predict(with_number(column, odd))
    with pytest.raises(CtrlabError, match="finite"):
        training.score(model, {"age": [1.0], "spent": [np.inf], "prices": [[1.0]], "city": ["Rome"], "shelf": [1]})


def test_a_step_on_them_is_refused_and_changes_nothing():
    model = models.build("wdl", SCHEMA, "stock", size="small")
    training.compile_model(model, training.make_optimizer(model))
    batch, labels = with_number("spent", np.nan), np.array([[0.0], [1.0]])
    batches = tf.data.Dataset.from_tensors((batch, labels))
    before = [weight.numpy() for weight in model.trainable_weights]
    for call in (
        lambda: model.predict(tf.data.Dataset.from_tensors(batch), verbose=0),
        lambda: model.evaluate(batches, verbose=0),
        lambda: model.fit(batches, verbose=0),
        lambda: training.train_step(model, model.optimizer)(batch, labels),
    ):
        with pytest.raises((CtrlabError, tf.errors.InvalidArgumentError), match="must be finite"):
            call()
    for weight, value in zip(model.trainable_weights, before):
        np.testing.assert_array_equal(weight, value)


FAR = [("age", 3.4e38, raw.LARGEST), ("age", -3.4e38, -raw.LARGEST), ("share", 3.4e38, 10.0), ("share", -1e30, -2.0)]


@pytest.mark.parametrize("name", ["wdl", "deepfm", "dlrm", "mmoe"])
def test_a_number_far_outside_of_its_range_counts_as_the_range_s_end(name):
    """Else it would overflow in the model, and ReLU would make 0 of it; or its answer would be 0 or 1 whatever else is known."""
    model = models.build(name, SCHEMA, "stock")

    def logits(**changed):
        return model(FEATURES | {column: tf.constant([1.0, value]) for column, value in changed.items()}, training=False).numpy()

    for column, far, end in FAR:
        found = logits(**{column: far})
        np.testing.assert_array_equal(found, logits(**{column: end}))
        assert np.isfinite(found).all()
    sums = tf.ragged.constant([[1.0], [3e38, 3e38]], dtype=tf.float32)
    assert np.isfinite(model(FEATURES | {"prices": sums}, training=False)).all()


def test_a_far_number_gets_one_answer_over_every_protocol(version):
    processor, signature, tensors = version
    for column, far, end in [each for each in FAR if each[0] in tensors]:  # an own model has its own ranges
        right = signature(**tensors | {column: with_odd(tensors[column], end)})["probabilities"]
        wide = tensors | {column: with_odd(tensors[column], far)}
        np.testing.assert_array_equal(signature(**wide)["probabilities"], right)
        found = json.loads(processor.process(by_columns(wide), "json").data)["outputs"]
        np.testing.assert_allclose(np.float32(found), right, rtol=0, atol=1e-6)


def test_an_answer_that_is_not_finite_is_refused_over_every_protocol(tmp_path):
    given = keras.Input((), name="x")
    serving.export_model(keras.Model(given, 1.0 / given), tmp_path / "ctr")
    with Processor(tmp_path / "ctr", poll_seconds=0) as processor:
        for x, good in ([1.0, 2.0], True), ([1.0, 0.0], False):
            tensors = {"x": tf.constant(x)}
            for format, body, header in [*ways(tensors), ("json", by_columns(tensors), -1)]:
                if good:
                    assert processor.process(body, format, header).data
                    continue
                with pytest.raises(Refused, match="finite numbers; probabilities of row 1 is none") as no:
                    processor.process(body, format, header)
                assert no.value.code == Code.INVALID
