"""An own model's signature is the one that Keras gives it: shapes, types and names, as users of TensorFlow Serving send them."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_requests import DATATYPES, fields, infer_json, infer_request, message, plain

from ctrlab import serving
from ctrlab.server import described, openapi
from ctrlab.serving import warm_up, wire
from ctrlab.serving.processor import Processor, Refused


@pytest.fixture
def serve(tmp_path):
    """`serve(model)` -> its processor."""
    opened = []

    def of(model, **options):
        serving.export_model(model, tmp_path / "ctr", **options)
        opened.append(Processor(tmp_path / "ctr", poll_seconds=0))
        return opened[-1]

    yield of
    for processor in opened:
        processor.close()


def doubled(shape, dtype="float32", name="x"):
    given = keras.Input(shape, name=name, dtype=dtype)
    return keras.Model(given, keras.layers.Lambda(lambda x: keras.ops.cast(x, "float32") * 2)(given))


def ask(processor, body):
    return json.loads(processor.process(json.dumps(body).encode(), "json").data)


ONE = [{"instances": [{"x": [2.0]}]}, {"instances": [[2.0]]}, {"instances": [{"x": 2.0}]}, {"instances": [2.0]}]
ONE += [{"inputs": {"x": [[2.0]]}}, {"inputs": [[2.0]]}, {"inputs": {"x": [2.0]}}, {"inputs": [2.0]}]


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_size_of_one_is_there_or_not(serve, shape):
    """As `predict` of Keras takes it; and the signature is Keras's."""
    processor = serve(doubled(shape))
    wanted = [4.0] if shape == () else [[4.0]]
    for body in ONE:
        assert ask(processor, body) == {"predictions" if "instances" in body else "outputs": wanted}
    for value in (tf.constant([2.0]), tf.constant([[2.0]])):
        proto = fields(fields(processor.process(warm_up.predict_request("ctr", {"x": value}), "predict").data)[1])[2]
        assert tf.make_ndarray(type(tf.make_tensor_proto(0)).FromString(proto)).tolist() == wanted
        for raw in (True, False):
            response = fields(processor.process(infer_request({"x": value}, raw), "infer").data)
            assert np.frombuffer(response[6], np.float32) == [4.0]
            body, header = infer_json({"x": value}, raw)
            assert processor.process(body, "infer_json", header).data
    [told] = described.model("ctr", [1], processor.info())["inputs"]
    assert told == {"name": "x", "datatype": "FP32", "shape": [-1, *shape]}
    dims = described.signature(processor.info()).inputs["x"].tensor_shape.dim
    assert [dim.size for dim in dims] == [-1, *shape]


def heads(kind):
    given = [keras.Input((1,), name="x"), keras.Input((2,), name="y")]
    joined = keras.layers.Concatenate()(given)
    click = keras.layers.Dense(1, activation="sigmoid", name="click")(joined)
    share = keras.layers.Dense(2, name="share")(joined)
    return keras.Model(given, {"p": click, "shares": share} if kind == "dict" else [click, share])


@pytest.mark.parametrize("kind", ["dict", "list"])
def test_several_outputs_keep_their_names_and_shapes(serve, tmp_path, kind):
    model = heads(kind)
    features = {"x": tf.constant([[2.0], [3.0]]), "y": tf.constant([[1.0, -1.0], [0.5, 0.0]])}
    processor = serve(model, rows=[features])
    found = model([features["x"], features["y"]])
    p, shares = ("p", "shares") if kind == "dict" else ("click", "share")
    click, share = (found["p"], found["shares"]) if kind == "dict" else found
    expected = {p: click.numpy(), shares: share.numpy()}

    rows = ask(processor, {"instances": [{"x": [2.0], "y": [1.0, -1.0]}, {"x": [3.0], "y": [0.5, 0.0]}]})["predictions"]
    columns = ask(processor, {"inputs": {name: plain(value) for name, value in features.items()}})["outputs"]
    for name, values in expected.items():
        np.testing.assert_allclose([row[name] for row in rows], values, atol=1e-6)
        np.testing.assert_allclose(columns[name], values, atol=1e-6)

    request = warm_up.predict_request("ctr", features)
    for filtered, names in (({}, {p, shares}), ({p}, {p}), ({shares}, {shares})):
        asked = request + b"".join(message(3, name.encode()) for name in filtered)
        entries = map(fields, wire.repeated(processor.process(asked, "predict").data, 1))
        got = {entry[1].decode(): tf.make_ndarray(type(tf.make_tensor_proto(0)).FromString(entry[2])) for entry in entries}
        assert got.keys() == names
        for name in names:
            np.testing.assert_allclose(got[name], expected[name], atol=1e-6)

    response = processor.process(infer_request(features), "infer").data
    tensors, raw = wire.repeated(response, 5), wire.repeated(response, 6)
    assert [fields(tensor)[1].decode() for tensor in tensors] == sorted(expected)
    for tensor, values in zip(tensors, raw):
        name, shape = fields(tensor)[1].decode(), wire.repeated(tensor, 3)
        np.testing.assert_allclose(np.frombuffer(values, np.float32).reshape(shape), expected[name], atol=1e-6)

    body, _ = infer_json(features, False)
    asked = json.loads(body) | {"outputs": [{"name": shares, "parameters": {"binary_data": True}}, {"name": p}]}
    reply = processor.process(json.dumps(asked).encode(), "infer_json")
    first, second = json.loads(reply.data[: reply.header])["outputs"]
    assert (first["name"], second["name"], second["shape"]) == (shares, p, [2, 1])
    np.testing.assert_allclose(np.frombuffer(reply.data[reply.header :], np.float32), expected[shares].ravel(), atol=1e-6)
    np.testing.assert_allclose(second["data"], expected[p].ravel(), atol=1e-6)

    manifest = serving.read_manifest(tmp_path / "ctr" / "1")
    assert manifest.tasks == (p, f"{shares}_0", f"{shares}_1")
    told = described.model("ctr", [1], processor.info())["outputs"]
    assert [(each["name"], each["shape"]) for each in told] == sorted([(p, [-1, 1]), (shares, [-1, 2])])
    for asked in ("nope", "probabilities"):
        with pytest.raises(Refused, match=f"has the output {p}, {shares}; a request asks for {asked}"):
            processor.process(request + message(3, asked.encode()), "predict")


SHAPES = st.sampled_from([(), (1,), (3,), (2, 3), (2, 1), (None,), (None, 2)])
TYPES = st.sampled_from(["float32", "float16", "float64", "bool", "int32", "int64", "string"])


@given(
    inputs=st.lists(st.tuples(SHAPES, TYPES), min_size=1, max_size=3),
    names=st.booleans(),
    rows=st.integers(1, 3),
    seed=st.integers(0, 99),
)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_signature_is_answered_over_every_protocol(tmp_path_factory, inputs, names, rows, seed):
    """The inputs come back, so that a value in a wrong place is seen."""
    out = tmp_path_factory.mktemp("models") / "ctr"
    given = [keras.Input(shape, dtype=dtype, name=f"in{k}") for k, (shape, dtype) in enumerate(inputs)]

    def same(x):
        return tf.strings.to_number(x) if x.dtype in (tf.string, "string") else x

    outputs = {
        f"out{k}": keras.layers.Lambda(same, output_shape=shape, name=f"out{k}", dtype="float32")(each)
        if dtype == "string"
        else keras.layers.Identity(name=f"out{k}", dtype=dtype)(each)
        for k, (each, (shape, dtype)) in enumerate(zip(given, inputs))
    }
    model = keras.Model({each.name: each for each in given} if names else given, outputs)
    rng = np.random.default_rng(seed)
    features = {}
    for each, (shape, dtype) in zip(given, inputs):
        values = rng.integers(0, 2 if dtype == "bool" else 100, [rows, *(4 if size is None else size for size in shape)])
        features[each.name] = tf.constant(values.astype("U") if dtype == "string" else values.astype(dtype))
    folder = serving.export_model(model, out, rows=[features])
    expected = {f"out{k}": np.asarray(features[f"in{k}"].numpy(), np.float64) for k in range(len(inputs))}

    def right(name, values):
        np.testing.assert_array_equal(np.asarray(values, np.float64).reshape(expected[name].shape), expected[name])

    found = tf.saved_model.load(str(folder)).signatures["serving_default"](**features)
    assert found.keys() == (expected.keys() if len(expected) > 1 else {*model.output})
    for name, values in found.items():
        right(name, values)
    with Processor(out, poll_seconds=0) as processor:
        columns = {name: plain(value) for name, value in features.items()}
        for body in (
            {"inputs": columns},
            {"instances": [{name: values[row] for name, values in columns.items()} for row in range(rows)]},
        ):
            answer = ask(processor, body)
            found = answer.get("outputs", answer.get("predictions"))
            for name in expected:
                if len(expected) == 1:
                    right(name, found)
                else:
                    right(name, found[name] if isinstance(found, dict) else [row[name] for row in found])
        for entry in map(fields, wire.repeated(processor.process(warm_up.predict_request("ctr", features), "predict").data, 1)):
            right(entry[1].decode(), tf.make_ndarray(type(tf.make_tensor_proto(0)).FromString(entry[2])))
        half = any(dtype == "float16" for _, dtype in inputs)
        types = {name: dtype for dtype, name in DATATYPES.items()}
        for raw in (True, False):
            if raw or not half:  # the protocol has no typed contents for it
                response = processor.process(infer_request(features, raw), "infer").data
                for tensor, values in zip(wire.repeated(response, 5), wire.repeated(response, 6)):
                    kind = types[fields(tensor)[2].decode()].as_numpy_dtype
                    right(fields(tensor)[1].decode(), np.frombuffer(values, kind))
            body, header = infer_json(features, raw)
            head = json.loads(body[: header if raw else None])
            plainly = json.dumps(head | {"outputs": []}).encode()  # answered without bytes
            asked = plainly + body[header:] if raw else plainly
            head = processor.process(asked, "infer_json", len(plainly) if raw else -1)
            for each in json.loads(head.data)["outputs"]:
                right(each["name"], each["data"])
        assert openapi.document({"ctr": processor.info()})


def test_a_history_of_any_length_stays_a_list(serve):
    past = keras.Input((None,), dtype="int64", ragged=True, name="past")
    counted = keras.layers.Lambda(lambda x: tf.cast(x.row_lengths(), tf.float32)[:, None], output_shape=(1,))(past)
    processor = serve(keras.Model(past, counted))
    for body in ({"instances": [[1, 2], []]}, {"instances": [{"past": [1, 2]}, {"past": []}]}):
        assert ask(processor, body) == {"predictions": [[2.0], [0.0]]}
    assert ask(processor, {"inputs": [[1, 2], []]}) == {"outputs": [[2.0], [0.0]]}
    assert ask(processor, {"inputs": {"past/values": [1], "past/row_splits": [0, 1, 1]}}) == {"outputs": [[1.0], [0.0]]}


def test_bytes_are_a_value_of_a_model_of_one_text(serve):
    processor = serve(keras.Model(*text_lengths()))
    assert ask(processor, {"instances": [{"b64": "/w=="}, "ab", {"x": "abc"}]}) == {"predictions": [[1.0], [2.0], [3.0]]}
    assert ask(processor, {"inputs": [{"b64": "/w=="}, "ab"]}) == {"outputs": [[1.0], [2.0]]}


def text_lengths():
    word = keras.Input((1,), dtype="string", name="x")
    return word, keras.layers.Lambda(lambda x: tf.cast(tf.strings.length(x), tf.float32), output_shape=(1,))(word)


@pytest.mark.parametrize(
    ("shape", "rows", "said"),
    [
        ((3,), [[1.0, 2.0]], "Lists of column x have 3 values each; received 2 in row 0"),
        ((3,), [[1.0, 2.0, 3.0], 1.0], "Lists of column x have 3 values each; received a number in row 1"),
        ((2, 3), [[[1.0] * 3] * 3], "Lists of column x have 2 lists each; received 3 in row 0"),
        ((None,), [[1.0], [1.0, 2.0]], "Lists of column x have 1 values each; received 2 in row 1"),
        ((), [[1.0, 2.0]], "A value of x, row 0, must be a number that 32 bits hold; received a list"),
    ],
)
def test_rows_of_another_shape_are_refused(serve, shape, rows, said):
    processor = serve(doubled(shape))
    for body in ({"instances": rows}, {"inputs": {"x": rows}}):
        with pytest.raises(Refused, match=said):
            ask(processor, body)


@pytest.mark.parametrize("shape", [[], [2], [2, 2], [2, 3, 1, 1], [2, 1]])
def test_tensors_of_another_shape_are_refused(serve, shape):
    processor = serve(doubled((3,)))
    request = {"x": tf.zeros(shape)}
    for format, *asked in (
        ("predict", warm_up.predict_request("ctr", request)),
        ("infer", infer_request(request)),
        ("infer_json", *infer_json(request, True)),
    ):
        with pytest.raises(Refused, match=r"Input x .*shape \[-1, 3\]; received the shape"):
            processor.process(asked[0], format, *asked[1:])
