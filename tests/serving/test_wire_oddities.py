"""Requests as few clients write them: what protocol buffers and JSON allow is read as by their libraries, the rest refused."""

import ctypes
import json
import os
import shutil

import pytest
import tensorflow as tf
from wire_requests import by_columns, infer_request, message

from ctrlab.errors import CtrlabError
from ctrlab.serving import warm_up, wire
from ctrlab.serving.processor import ALL, Code, Processor, Refused


@pytest.fixture(scope="module")
def processor(din):
    with Processor(din[0], poll_seconds=0) as processor:
        yield processor


def refuses(processor, sentence, body, format="predict", header=ALL, code=Code.INVALID):
    with pytest.raises(Refused, match=sentence) as refused:
        processor.process(body, format, header)
    assert refused.value.code == code
    return str(refused.value)


def with_item(right, tensor: bytes) -> bytes:
    """A PredictRequest whose input "item" is this TensorProto."""
    others = {name: each for name, each in right.items() if name != "item"}
    return warm_up.predict_request("ctr", others) + message(2, message(1, b"item") + message(2, tensor))


def text_content(*texts, content=None):
    proto = tf.make_tensor_proto(list(texts))
    del proto.string_val[:]
    proto.tensor_content = b"".join(map(wire.varint, map(len, texts))) + b"".join(texts) if content is None else content
    return proto.SerializeToString()


@pytest.mark.parametrize("texts", [(b"B1", b"", b"x" * 300), (b"", b"", b"")])
def test_text_in_a_tensor_s_content_is_read_as_tensorflow_reads_it(processor, din, texts):
    tensor = text_content(*texts)
    assert tf.io.parse_tensor(tensor, tf.string).numpy().tolist() == list(texts)
    assert processor.parse(with_item(din[3], tensor), "predict")["item"].to_pylist() == list(texts)


@pytest.mark.parametrize("content", [b"\1\1", b"\1\1\1ab", b"\1\1\1abcd", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\1\1abc"])
def test_content_that_is_no_text_is_refused(processor, din, content):
    refuses(
        processor, "content of a tensor of text has 3 lengths", with_item(din[3], text_content(b"", b"", b"", content=content))
    )


def test_a_request_is_for_this_model_its_version_and_its_output(processor, din):
    body = warm_up.predict_request("ctr", din[3])
    for more, sentence in (
        (message(1, message(1, b"other")), "The model ctr is served; received a request for other"),
        (message(1, message(2, wire.number(1, (1 << 64) - 1))), "received a request for -1"),
        (message(1, message(2, b"")), "received a request for 0"),
    ):
        refuses(processor, sentence, body + more, code=Code.NOT_FOUND)
    refuses(processor, "has the output probabilities; a request asks for nope", body + message(3, b"nope"))
    assert processor.process(body + message(3, b"probabilities"), "predict").data
    refuses(processor, "request for other", infer_request(din[3], more=message(1, b"other")), "infer", code=Code.NOT_FOUND)
    refuses(processor, "id comes back with its answer", infer_request(din[3], more=message(3, b"\xff")), "infer")


def test_shapes_that_are_said_twice_or_not_known_are_refused(processor, din):
    whole = tf.make_tensor_proto(["a", "b", "c"]).SerializeToString()
    for more in (message(2, message(2, wire.number(1, 3))), message(2, wire.number(3, 1))):
        refuses(processor, "one dimension", with_item(din[3], whole + more))


@pytest.mark.parametrize("size", [1, -1])
def test_a_shape_of_many_sizes_is_not_told_in_full(processor, size):
    sizes, body = [size] * 100_000, message(1, b"item") + message(2, b"BYTES")
    body += message(3, wire.varint(size % (1 << 64)) * len(sizes)) + message(5, message(8, b"a"))
    tensor = {"name": "item", "datatype": "BYTES", "shape": sizes, "data": ["a"]}
    proto = wire.number(1, 7) + message(2, message(2, wire.number(1, size % (1 << 64))) * len(sizes)) + message(8, b"a")
    for request in (
        (message(5, body), "infer"),
        (json.dumps({"inputs": [tensor]}).encode(), "infer_json"),
        (message(2, message(1, b"item") + message(2, proto)), "predict"),
    ):
        assert len(refuses(processor, f"{size}, {size}, ", *request)) < 300


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"inputs": {"item": [18446744073709551616]}}', "whole ones of at most 64 bits"),
        (b'{"inputs": {"item": [-9223372036854775809]}}', "whole ones of at most 64 bits"),
        (b'{"inputs": {"item": [1e400]}}', "others up to 1e308"),
        (b'{"inputs": {"item": [01]}}', "as JSON has them"),
        (b'{"inputs": {}, "inputs": {}}', "received one twice"),
        (b'{"instances": [], "instances": []}', "received one twice"),
    ],
)
def test_json_that_is_odd_is_refused(processor, body, sentence):
    refuses(processor, sentence, body, "json")


def test_sizes_of_bytes_behind_json_are_whole_numbers(processor):
    odd = (
        b'{"inputs": [{"name": "item", "datatype": "BYTES", "shape": [0], "data": [], "parameters": {"binary_data_size": 1.5}}]}'
    )
    refuses(processor, "binary_data_size is a whole number", odd, "infer_json")


@pytest.mark.parametrize("name", ["a\nb", "a\0b", "a\x1b[2Jb", "ä" * 3_000, "x" * 5_000])
def test_a_sentence_that_quotes_a_request_is_a_line_with_its_cure(processor, name):
    said = refuses(processor, "none of them: leave it out", json.dumps({"inputs": {name: [1]}}).encode(), "json")
    assert said.isprintable() and len(said) < 300 and "�" not in said


def test_a_folder_s_name_may_be_any_bytes(din, tmp_path):
    folder = os.fsencode(tmp_path) + b"/m\xffodd"
    shutil.copytree(din[0], os.fsdecode(folder))
    with Processor(folder, poll_seconds=0) as processor:
        assert processor.info()["name"] == "m�odd"
        assert json.loads(processor.process(by_columns(din[3]), "json").data)["outputs"]


def test_arguments_that_c_would_misread_are_refused(processor, din, tmp_path):
    for request in ("text", bytearray(b"{}"), None):
        with pytest.raises(CtrlabError, match="A request is bytes"):
            processor.process(request, "json")
    for header in (1 << 64, -2):
        with pytest.raises(CtrlabError, match="header of a request"):
            processor.process(b"{}", "infer_json", header)
    with pytest.raises(CtrlabError, match="no zero in it"):
        Processor(f"{din[0]}\0more")


def test_a_batch_of_one_says_which_request_was_refused(processor):
    library = processor._library
    request = (ctypes.c_int64 * 5)(40, 1, 0, 0, -1)
    response = (ctypes.c_int64 * 10)(80)
    problem = ctypes.create_string_buffer(300)
    code = library.ctrlab_processor_batch_process(
        ctypes.c_uint64(processor._handle), request, ctypes.c_size_t(1), response, problem, ctypes.c_size_t(300)
    )
    assert code == Code.INVALID and problem.value.startswith(b"Request 0: A request is JSON"), problem.value
