"""The processor: the model's own answers from wire bytes, and odd requests refused alone."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from served import TOLERANCE, first, probabilities
from wire_requests import (
    answer_of,
    answer_of_infer,
    answer_of_infer_json,
    by_columns,
    by_lists,
    by_rows,
    infer_json,
    infer_request,
    message,
)

from ctrlab import serving
from ctrlab.errors import UnknownName
from ctrlab.model_names import DATA_SETS
from ctrlab.serving import inputs, warm_up, wire
from ctrlab.serving.processor import ALL, Code, Processor, Refused
from tests import forked


@pytest.mark.parametrize("kind", ["text", "ids"])
@pytest.mark.parametrize("optimizations", ["all", "stock"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_it_answers_as_the_model_does(trained, tmp_path, name, optimizations, kind):
    model, features = trained(name, optimizations=optimizations)
    folder = serving.export_model(model, tmp_path / "ctr", inputs=kind)
    columns = serving.read_manifest(folder).inputs
    with Processor(tmp_path / "ctr", poll_seconds=0) as processor:
        assert set(processor.info()["inputs"]) == {input for column in columns for input in column.specs}
        for rows in (0, 1, 7, 64):
            batch = first(features, rows)
            tensors, expected = inputs.to_tensors(batch, columns, model), probabilities(model, batch)
            predicted, model_name, version = answer_of(processor.process(warm_up.predict_request("ctr", tensors), "predict").data)
            assert (model_name, version, predicted.shape) == ("ctr", 1, expected.shape)
            found = [
                predicted,
                json.loads(processor.process(by_columns(tensors), "json").data)["outputs"],
                json.loads(processor.process(json.dumps({"inputs": by_lists(tensors)}).encode(), "json").data)["outputs"],
                json.loads(processor.process(by_rows(tensors), "json").data)["predictions"],
                answer_of_infer(processor.process(infer_request(tensors), "infer").data),
                answer_of_infer(processor.process(infer_request(tensors, of_raw=False), "infer").data),
                answer_of_infer_json(processor.process(infer_json(tensors, False)[0], "infer_json")),
                answer_of_infer_json(processor.process(infer_json(tensors, True)[0], "infer_json", infer_json(tensors, True)[1])),
            ]
            for each in found:
                np.testing.assert_allclose(np.reshape(each, expected.shape), expected, rtol=0, atol=TOLERANCE)
            for parsed in (
                processor.parse(warm_up.predict_request("ctr", tensors), "predict"),
                processor.parse(by_rows(tensors), "json"),
                processor.parse(infer_request(tensors), "infer"),
                processor.parse(infer_json(tensors, True)[0], "infer_json", infer_json(tensors, True)[1]),
            ):
                assert {name: values.to_pylist() for name, values in parsed.items()} == {
                    name: tensor.numpy().tolist() for name, tensor in tensors.items()
                }


ODD_JSON = {
    "empty": (b"", "is JSON; this is none"),
    "cut": (b'{"inputs": {', "is JSON; this is none"),
    "no UTF-8": (b'{"inputs": {"item": ["\xff"]}}', "is JSON; this is none"),
    "a list": (b"[]", "received a list"),
    "nothing": (b"{}", 'either "inputs", by columns, or "instances", by rows, once; received none'),
    "both": (b'{"inputs": {}, "instances": []}', "received both"),
    "more": (b'{"inputs": {}, "session": 1}', "session is unknown"),
    "an unknown column": (b'{"inputs": {"age": [1]}}', "age is none of them"),
    "half a list": (b'{"inputs": {"history_items/values": ["a"]}}', "every input of the model; .*row_splits.* is missing"),
    "a column twice": (b'{"inputs": {"item": ["a"], "item": ["b"]}}', "item twice"),
    "a number for text": (
        b'{"inputs": {"item": ["a", 3.5]}}',
        r"item, row 1, must be text.*received a number: 3.5: send it as text",
    ),
    "bad base64": (b'{"inputs": {"item": [{"b64": "a"}]}}', r"item, row 0, must be text"),
    "text for a list": (b'{"inputs": {"history_items": ["a"]}}', "list in each row; received text in row 0"),
    "no rows": (b'{"instances": {}}', '"instances" is a list'),
    "a row that is none": (b'{"instances": [3]}', "received a number in row 0"),
    "another signature": (b'{"signature_name": 3, "inputs": {}}', '"signature_name" is text'),
}


@pytest.mark.parametrize("odd", ODD_JSON)
def test_odd_json_is_refused_in_a_sentence(din, odd):
    out, model, features, right = din
    body, sentence = ODD_JSON[odd]
    with Processor(out, poll_seconds=0) as processor:
        with pytest.raises(Refused, match=sentence) as refused:
            processor.process(body, "json")
        assert refused.value.code == Code.INVALID and "\n" not in str(refused.value)
        found = json.loads(processor.process(by_columns(right), "json").data)["outputs"]
    np.testing.assert_allclose(found, probabilities(model, first(features, 3)), rtol=0, atol=TOLERANCE)


def test_odd_tensors_are_refused_in_a_sentence(din):
    out, _, _, right = din
    with Processor(out, poll_seconds=0) as processor:

        def refuses(sentence, code=Code.INVALID, /, **changed):
            tensors = {name: tensor for name, tensor in (right | changed).items() if tensor is not None}
            with pytest.raises(Refused, match=sentence) as refused:
                processor.process(warm_up.predict_request("ctr", tensors), "predict")
            assert refused.value.code == code and "\n" not in str(refused.value)

        refuses("history_items/values, of type string, is missing", **{"history_items/values": None})
        refuses("age is none of them", age=tf.constant([1]))
        refuses(r"item is of type string.*received type 10", item=tf.constant([True, True, False]))
        refuses("item is an array of one dimension", item=tf.constant([["a", "a"], ["b", "b"], ["c", "c"]]))
        refuses("item is an array of one dimension", item=tf.constant("a"))
        refuses(".", item=tf.constant(["a", "b"]))  # other rows than the other columns
        refuses(".", **{"history_items/row_splits": tf.constant([0, 2, 1, 3], tf.int64)})
        spec = b"\x0a\x0b\x1a\x09something"  # model_spec { signature_name: "something" }
        body = warm_up.predict_request("ctr", right) + spec
        with pytest.raises(Refused, match="received something") as refused:
            processor.process(body, "predict")
        assert refused.value.code == Code.NOT_FOUND
        with pytest.raises(Refused, match="received a request for 7"):
            processor.process(warm_up.predict_request("ctr", right) + b"\x0a\x04\x12\x02\x08\x07", "predict")
        with pytest.raises(UnknownName, match="format"):
            processor.process(b"", "xml")


def test_a_request_that_is_cut_anywhere_is_refused_or_lacks_a_column(din):
    out, _, _, right = din
    body = warm_up.predict_request("ctr", right)
    entries = {body.index(wire.field(1, name.encode()) + b"\x12") for name in right}  # but for a column's beginning
    with Processor(out, poll_seconds=0) as processor:
        for end in range(len(body)):
            if entries & {*range(end, end + 4)}:  # columns that are left out have their defaults
                continue
            with pytest.raises(Refused) as refused:
                processor.process(body[:end], "predict")
            assert refused.value.code == Code.INVALID


def test_values_that_are_fewer_than_the_shape_are_repeated(din):
    """TensorFlow does the same: clients may send one value for many."""
    out, _, _, right = din
    with Processor(out, poll_seconds=0) as processor:
        once = tf.make_tensor_proto("a", shape=[1]).SerializeToString()
        assert tf.io.parse_tensor(once, tf.string).numpy().tolist() == [b"a"]
        proto = tf.make_tensor_proto(["a", "a", "a"])
        del proto.string_val[1:]
        others = {name: tensor for name, tensor in right.items() if name != "item"}
        entry = wire.field(2, wire.field(1, b"item") + wire.field(2, proto.SerializeToString()))
        short = processor.process(warm_up.predict_request("ctr", others) + entry, "predict").data
        full = processor.process(warm_up.predict_request("ctr", right | {"item": tf.constant(["a"] * 3)}), "predict").data
        assert short == full
        proto.tensor_shape.dim[0].size = 1 << 40
        entry = wire.field(2, wire.field(1, b"item") + wire.field(2, proto.SerializeToString()))
        with pytest.raises(Refused, match=r"one dimension|holds its values"):
            processor.process(warm_up.predict_request("ctr", others) + entry, "predict")


LARGE = """
import json, re, sys
from pathlib import Path
from ctrlab.serving.processor import Processor, Refused

def mebibytes():
    said = Path("/proc/self/status").read_text()
    return [int(re.search(rf"{name}:\\s+([0-9]+) kB", said)[1]) / 1024 for name in ("VmRSS", "VmHWM")]

with Processor(sys.argv[1], poll_seconds=0) as processor:
    processor.process(sys.stdin.buffer.read(), "json")
    large = b'{"inputs": [' + b"1," * (16 << 20) + b"1]}"
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, _ = mebibytes()
    try:
        processor.process(large, "json")
    except Refused as refused:
        after, peak = mebibytes()
        print(json.dumps([after - before, peak - before, str(refused)]))
"""


def test_a_large_request_leaves_no_memory_behind(din):
    """A parser takes ten times its 32 MiB. A new process counts them, because in this one other tests take memory, too."""
    out, _, _, right = din
    ran = forked.run([sys.executable, "-c", LARGE, out], input=by_columns(right), stdout=subprocess.PIPE, check=True)
    left, peak, refused = json.loads(ran.stdout)
    assert "object of columns" in refused and left < 2 * 32 < 8 * 32 < peak


def test_odd_inference_requests_are_refused_in_a_sentence(din):
    out, _, _, right = din
    with Processor(out, poll_seconds=0) as processor:

        def refuses(sentence, body, format="infer", header=ALL, code=Code.INVALID):
            with pytest.raises(Refused, match=sentence) as refused:
                processor.process(body, format, header)
            assert refused.value.code == code and "\n" not in str(refused.value)

        whole = infer_request(right)
        for end in range(len(whole)):
            refuses(".", whole[:end])
        texts = {"item": right["item"]}
        others = {name: tensor for name, tensor in right.items() if name != "history_items/values"}
        refuses("of type string, is missing", infer_request(others))
        refuses("raw contents for each of its 1 inputs", infer_request(texts) + message(7, b""))
        refuses("datatype BYTES; received BOOL", infer_request({"item": tf.constant([True, False, True])}))
        refuses("age is none of them", infer_request({"age": tf.constant([1])}))
        refuses("asks for scores", infer_request(right, more=message(6, message(1, b"scores"))), code=Code.NOT_FOUND)
        refuses("request for 7", infer_request(right, more=message(2, b"7")), code=Code.NOT_FOUND)
        refuses("version is a number; received new", infer_request(right, more=message(2, b"new")), code=Code.NOT_FOUND)
        body, header = infer_json(right, True)
        for end in range(header, len(body)):
            refuses(".", body[:end], "infer_json", header)
        refuses("belong to none", body + b"x", "infer_json", header)
        refuses("is JSON; this is none", body[1:], "infer_json", header)
        refuses("JSON of a request is 9999", b"{}", "infer_json", 9999)
        refuses("received a list", b"[]", "infer_json")
        refuses("an object with name, datatype and shape; received a number", b'{"inputs": [3]}', "infer_json")
        refuses("model is unknown", b'{"model": "ctr"}', "infer_json")
        for data, sentence in (("[1]", "item says 2 and has 1"), ("[1.5, 2]", "item, row 0, must be text"), ("3", "has neither")):
            odd = f'{{"inputs": [{{"name": "item", "datatype": "BYTES", "shape": [2], "data": {data}}}]}}'
            refuses(sentence, odd.encode(), "infer_json")
        for shape, sentence in (
            ("[2, 1]", "item says 2 and has 0"),
            ("[-1]", "sizes from 0 to 2"),
            ('["a"]', "whole numbers; received text"),
        ):
            odd = f'{{"inputs": [{{"name": "item", "datatype": "BYTES", "shape": {shape}, "data": []}}]}}'
            refuses(sentence, odd.encode(), "infer_json")
