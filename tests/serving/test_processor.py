"""The processor: the model's own answers from wire bytes, odd requests refused alone, and versions that come while it serves."""

import ctypes
import itertools
import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from served import TOLERANCE, first, probabilities

from ctrlab import serving
from ctrlab.errors import UnknownName
from ctrlab.model_names import DATA_SETS
from ctrlab.serving import inputs, warm_up
from ctrlab.serving.bundled import WEIGHTS
from ctrlab.serving.processor import ALL, LIBRARY, Code, Processor, Refused

NATIVE = Path(__file__).parents[2] / "native"


def plain(tensor):
    """A tensor as JSON has it."""
    values = tensor.numpy().tolist()
    return [value.decode() for value in values] if tensor.dtype == tf.string else values


def by_columns(tensors):
    return json.dumps({"inputs": {name: plain(tensor) for name, tensor in tensors.items()}}).encode()


def by_lists(tensors):
    """Columns of lists by their own names."""
    columns = {name: plain(tensor) for name, tensor in tensors.items()}
    for name in [name for name in columns if name.endswith("/values")]:
        column = name.removesuffix("/values")
        values, splits = columns.pop(name), columns.pop(f"{column}/row_splits")
        columns[column] = [values[begin:end] for begin, end in itertools.pairwise(splits)]
    return columns


def by_rows(tensors):
    columns = by_lists(tensors)
    rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
    return json.dumps({"signature_name": "serving_default", "instances": rows}).encode()


DATATYPES = {tf.string: "BYTES", tf.int32: "INT32", tf.int64: "INT64", tf.float32: "FP32"}


def raw(tensor):
    """A tensor's bytes in the open inference protocol."""
    if tensor.dtype != tf.string:
        return tensor.numpy().tobytes()
    return b"".join(len(text).to_bytes(4, "little") + text for text in tensor.numpy().tolist())


def message(number, content):
    return warm_up._field(number, content)


def typed(tensor):
    """InferTensorContents."""
    if tensor.dtype == tf.string:
        return b"".join(message(8, text) for text in tensor.numpy().tolist())
    if tensor.dtype == tf.float32:
        return message(6, tensor.numpy().tobytes())
    number = {tf.int32: 2, tf.int64: 3}[tensor.dtype]
    return message(number, b"".join(warm_up._varint(int(n) & (1 << 64) - 1) for n in tensor.numpy()))


def infer_request(tensors, of_raw=True, more=b""):
    """A ModelInferRequest."""
    body = message(1, b"ctr") + message(3, b"a call") + more
    for name, tensor in tensors.items():
        shape = bytes([3 << 3]) + warm_up._varint(len(tensor))
        contents = b"" if of_raw else message(5, typed(tensor))
        body += message(5, message(1, name.encode()) + message(2, DATATYPES[tensor.dtype].encode()) + shape + contents)
    return body + (b"".join(message(7, raw(tensor)) for tensor in tensors.values()) if of_raw else b"")


def infer_json(tensors, binary):
    """(The body, its header); with `binary`, tensors of numbers stand behind it, and texts in it."""
    given, tail = [], b""
    for name, tensor in tensors.items():
        entry = {"name": name, "shape": [len(tensor)], "datatype": DATATYPES[tensor.dtype]}
        if binary:
            entry["parameters"] = {"binary_data_size": len(raw(tensor))}
            tail += raw(tensor)
        else:
            entry["data"] = plain(tensor)
        given.append(entry)
    outputs = [{"name": "probabilities", "parameters": {"binary_data": True}}] if binary else []
    head = json.dumps({"id": "a call", "inputs": given, "outputs": outputs}).encode()
    return head + tail, len(head) if binary else ALL


def answer_of_infer(response):
    """The probabilities of a ModelInferResponse."""
    found = fields(response)
    assert (found[1], found[2], found[3]) == (b"ctr", b"1", b"a call")
    assert fields(found[5])[1] == b"probabilities" and fields(found[5])[2] == b"FP32"
    return np.frombuffer(found[6], np.float32)


def answer_of_infer_json(reply):
    head = json.loads(reply.data if reply.header == ALL else reply.data[: reply.header])
    [output] = head["outputs"]
    assert (head["model_name"], head["model_version"], head["id"]) == ("ctr", "1", "a call")
    assert (output["name"], output["datatype"]) == ("probabilities", "FP32")
    if reply.header == ALL:
        return np.array(output["data"]).reshape(output["shape"])
    assert output["parameters"]["binary_data_size"] == len(reply.data) - reply.header
    return np.frombuffer(reply.data[reply.header :], np.float32).reshape(output["shape"])


def varint(data, at):
    n = shift = 0
    while True:
        n, shift, at = n | (data[at] & 127) << shift, shift + 7, at + 1
        if data[at - 1] < 128:
            return n, at


def fields(data):
    """{number of a field: content} of a message, the last of each number."""
    at, found = 0, {}
    while at < len(data):
        tag, at = varint(data, at)
        length, at = varint(data, at)
        found[tag >> 3] = data[at : at + length] if tag & 7 == 2 else length
        at += length if tag & 7 == 2 else 0
    return found


def answer_of(response):
    """The probabilities of a PredictResponse, its model and version."""
    message = fields(response)
    entry, spec = fields(message[1]), fields(message[2])
    proto = tf.make_tensor_proto(0)
    proto.ParseFromString(entry[2])
    assert entry[1] == b"probabilities"
    return tf.make_ndarray(proto), spec[1].decode(), fields(spec[2])[1]


@pytest.fixture(scope="module")
def din(trained, tmp_path_factory):
    """The folder of a model with one version, the model, and the tensors of a right request."""
    model, features = trained("din", optimizations="all", embedding="hashed")
    out = tmp_path_factory.mktemp("models") / "ctr"
    folder = serving.export_model(model, out, rows=[first(features, 3)])
    return out, model, features, inputs.to_tensors(first(features, 3), serving.read_manifest(folder).inputs, model)


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


ODD_JSON = {
    "empty": (b"", "is JSON; this is none"),
    "cut": (b'{"inputs": {', "is JSON; this is none"),
    "no UTF-8": (b'{"inputs": {"item": ["\xff"]}}', "is JSON; this is none"),
    "a list": (b"[]", "received a list"),
    "nothing": (b"{}", 'either "inputs", by columns, or "instances", by rows; received none'),
    "both": (b'{"inputs": {}, "instances": []}', "received both"),
    "more": (b'{"inputs": {}, "session": 1}', "session is unknown"),
    "an unknown column": (b'{"inputs": {"age": [1]}}', "age is none of them"),
    "a missing column": (b'{"inputs": {"item": ["a"]}}', "every input of the model; .* is missing"),
    "a column twice": (b'{"inputs": {"item": ["a"], "item": ["b"]}}', "item twice"),
    "a number for text": (b'{"inputs": {"item": ["a", 3]}}', r"item, row 1, must be text.*received a number that is none: 3"),
    "bad base64": (b'{"inputs": {"item": [{"b64": "a"}]}}', r"item, row 0, must be text"),
    "text for a list": (b'{"inputs": {"history_items": ["a"]}}', "list in each row; received text in row 0"),
    "no rows": (b'{"instances": {}}', '"instances" is a list'),
    "a row that is none": (b'{"instances": [3]}', "received a number in row 0"),
    "an incomplete row": (b'{"instances": [{"item": "a"}]}', "row 0 lacks"),
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

        refuses("item, of type string, is missing", item=None)
        refuses("age is none of them", age=tf.constant([1]))
        refuses(r"item is of type string.*received type 3", item=tf.constant([1, 2, 3]))
        refuses("item is an array of one dimension", item=tf.constant([["a"], ["b"], ["c"]]))
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
    with Processor(out, poll_seconds=0) as processor:
        for end in range(len(body)):
            with pytest.raises(Refused) as refused:
                processor.process(body[:end], "predict")
            assert refused.value.code == Code.INVALID


def test_values_that_are_fewer_than_the_shape_are_repeated(din):
    """As TensorFlow does: clients send one value for many."""
    out, _, _, right = din
    with Processor(out, poll_seconds=0) as processor:
        once = tf.make_tensor_proto("a", shape=[1]).SerializeToString()
        assert tf.io.parse_tensor(once, tf.string).numpy().tolist() == [b"a"]
        proto = tf.make_tensor_proto(["a", "a", "a"])
        del proto.string_val[1:]
        others = {name: tensor for name, tensor in right.items() if name != "item"}
        entry = warm_up._field(2, warm_up._field(1, b"item") + warm_up._field(2, proto.SerializeToString()))
        short = processor.process(warm_up.predict_request("ctr", others) + entry, "predict").data
        full = processor.process(warm_up.predict_request("ctr", right | {"item": tf.constant(["a"] * 3)}), "predict").data
        assert short == full
        proto.tensor_shape.dim[0].size = 1 << 40
        entry = warm_up._field(2, warm_up._field(1, b"item") + warm_up._field(2, proto.SerializeToString()))
        with pytest.raises(Refused, match=r"one dimension|holds its values"):
            processor.process(warm_up.predict_request("ctr", others) + entry, "predict")


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
        others = {name: tensor for name, tensor in right.items() if name != "item"}
        refuses("of type string, is missing", infer_request(others))
        refuses("raw contents for each of its 1 inputs", infer_request(texts) + message(7, b""))
        refuses("datatype BYTES; received INT32", infer_request({"item": tf.constant([1, 2, 3])}))
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
        for data, sentence in (("[1]", "item says 2 and has 1"), ("[1, 2]", "item, row 0, must be text"), ("3", "has neither")):
            odd = f'{{"inputs": [{{"name": "item", "datatype": "BYTES", "shape": [2], "data": {data}}}]}}'
            refuses(sentence, odd.encode(), "infer_json")
        for shape, sentence in (("[2, 1]", "received 2 numbers"), ("[-1]", "below 0"), ('["a"]', "whole numbers; received text")):
            odd = f'{{"inputs": [{{"name": "item", "datatype": "BYTES", "shape": {shape}, "data": []}}]}}'
            refuses(sentence, odd.encode(), "infer_json")


@pytest.mark.parametrize(
    ("configuration", "sentence"),
    [
        ({"threads": 1}, "threads is unknown"),
        ({"version": 0}, '"version" must be'),
        ({"version": 7}, "there is no version 7"),
        ({"poll_seconds": -1}, '"poll_seconds" must be'),
        ({"intra_op_threads": "many"}, '"intra_op_threads" must be.*received "many"'),
        ({"name": ""}, '"name" must be'),
    ],
)
def test_odd_configurations_are_refused(din, configuration, sentence):
    with pytest.raises(Refused, match=sentence):
        Processor(din[0], **configuration)


def test_a_request_has_a_limit(din):
    with Processor(din[0], most_request_bytes=10) as processor, pytest.raises(Refused, match="at most 10 bytes; received 11"):
        processor.process(b" " * 11, "json")


def test_a_folder_without_versions_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(Refused, match="there is none: write one by ctrlab export") as refused:
            Processor(folder)
        assert refused.value.code == Code.NOT_FOUND
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "ctrlab.json").write_text("{}")
    with pytest.raises(Refused, match=f"Version {tmp_path}/1 can't be loaded"):
        Processor(tmp_path)


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.timeout(300)
def test_newer_versions_are_found_and_broken_ones_are_not_served(din, tmp_path):
    """While four threads ask."""
    out, _, _, right = din
    folder, body = tmp_path / "ctr", warm_up.predict_request("ctr", right)
    shutil.copytree(out / "1", folder / "1")
    problems, seen, end = [], set(), threading.Event()
    with Processor(folder, poll_seconds=0.02) as processor, Processor(folder, version=1) as pinned:

        def ask():
            try:
                while not end.is_set():
                    seen.add(answer_of(processor.process(body, "predict").data)[2])
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        shutil.copytree(out / "1", folder / "2", ignore=lambda *_: ["ctrlab.json"])  # half written
        shutil.copytree(out / "1", tmp_path / "3")
        damaged = tmp_path / "3" / "assets" / WEIGHTS
        damaged.write_bytes(damaged.read_bytes()[:-1])
        # A bundle of the same name is open already, so the damage shows in another name only.
        graph = tmp_path / "3" / "saved_model.pb"
        graph.write_bytes(graph.read_bytes()[:-100])
        (tmp_path / "3").rename(folder / "3")
        wait_for(lambda: "3" in processor.info()["refused"])
        assert processor.info()["version"] == 1
        shutil.copytree(out / "1", tmp_path / "4")
        (tmp_path / "4").rename(folder / "4")
        wait_for(lambda: processor.info()["version"] == 4)
        wait_for(lambda: 4 in seen)
        end.set()
        for thread in threads:
            thread.join()
        assert (problems, seen) == ([], {1, 4}) and pinned.info()["version"] == 1


def test_a_version_whose_warm_up_fails_is_not_served(din, tmp_path):
    out, _, _, _ = din
    folder = tmp_path / "ctr"
    shutil.copytree(out / "1", folder / "1")
    shutil.copytree(out / "1", folder / "2")
    with tf.io.TFRecordWriter(str(folder / "2" / warm_up.PLACE)) as file:
        file.write(warm_up._field(6, warm_up._field(1, warm_up.predict_request("ctr", {"item": tf.constant(["a"])}))))
    with Processor(folder, poll_seconds=0) as processor:
        assert processor.info()["version"] == 1
        assert "warm-up requests" in processor.info()["refused"]["2"] and "is missing" in processor.info()["refused"]["2"]


def test_a_closed_processor_refuses(din):
    processor = Processor(din[0])
    processor.close()
    processor.close()
    with pytest.raises(Refused, match="until it is released"):
        processor.process(b"{}", "json")
    with pytest.raises(Refused, match="until it is released"):
        processor.info()


def test_it_is_closed_while_others_ask(din):
    """Their calls are answered, or refused in a sentence."""
    out, _, _, right = din
    body, odd = by_rows(right), []
    for _ in range(5):
        processor = Processor(out, poll_seconds=0.01)

        def ask(processor=processor):
            try:
                for _ in range(10_000):
                    processor.process(body, "json")
            except Refused as refused:
                if "released" not in str(refused):
                    odd.append(refused)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        processor.close()
        for thread in threads:
            thread.join()
    assert odd == []


HOST = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "processor/processor_c.h"

/* host FOLDER FILE: answers the JSON request in FILE, twice in one call, and prints the answer. */
int main(int count, char** words) {
  char problem[500];
  ctrlab_processor processor;
  if (count != 3 || ctrlab_processor_version() != CTRLAB_PROCESSOR_VERSION) return 2;
  if (ctrlab_processor_initialize(words[1], NULL, &processor, problem, sizeof problem) != CTRLAB_PROCESSOR_OK) {
    puts(problem);
    return 1;
  }
  FILE* file = fopen(words[2], "rb");
  char* body = malloc(1 << 20);
  size_t size = fread(body, 1, 1 << 20, file);
  ctrlab_processor_request requests[2];
  ctrlab_processor_response responses[2];
  for (int i = 0; i < 2; ++i) {
    memset(&requests[i], 0, sizeof requests[i]);
    memset(&responses[i], 0, sizeof responses[i]);
    requests[i].struct_size = sizeof requests[i];
    responses[i].struct_size = sizeof responses[i];
    requests[i].format = CTRLAB_PROCESSOR_JSON;
    requests[i].data = body;
    requests[i].size = size;
    requests[i].header = -1;
  }
  if (ctrlab_processor_batch_process(processor, requests, 2, responses, problem, sizeof problem)) return puts(problem), 1;
  if (responses[0].size != responses[1].size || memcmp(responses[0].data, responses[1].data, responses[0].size)) return 3;
  fwrite(responses[0].data, 1, responses[0].size, stdout);
  ctrlab_processor_free(&responses[0]);
  ctrlab_processor_free(&responses[1]);
  ctrlab_processor_free(&responses[1]);
  requests[1].size = 3;
  int code = ctrlab_processor_batch_process(processor, requests, 2, responses, problem, sizeof problem);
  if (code != CTRLAB_PROCESSOR_INVALID) return 4;
  if (strncmp(problem, "Request 1: ", 11) || responses[0].owner || responses[1].owner) return 5;
  requests[0].struct_size = 1;
  code = ctrlab_processor_process(processor, requests, responses, problem, 8);
  if (code != CTRLAB_PROCESSOR_INVALID || strlen(problem) != 7) return 6;
  if (ctrlab_processor_process(processor, NULL, responses, NULL, 0) != CTRLAB_PROCESSOR_INVALID) return 7;
  if (ctrlab_processor_release(processor, problem, sizeof problem)) return 8;
  if (ctrlab_processor_release(processor, problem, sizeof problem) != CTRLAB_PROCESSOR_INVALID) return 9;
  free(body);
  return 0;
}
"""


def test_a_host_in_c_gets_the_same_answers(din, tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler `cc`")
    out, model, features, right = din
    (tmp_path / "host.c").write_text(HOST)
    (tmp_path / "request").write_bytes(by_rows(right))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", NATIVE, tmp_path / "host.c", "-o", tmp_path / "host"]
    subprocess.run(["cc", *flags, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-Wl,--allow-shlib-undefined"], check=True)
    ran = subprocess.run([tmp_path / "host", out, tmp_path / "request"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    expected = probabilities(model, first(features, 3))
    np.testing.assert_allclose(json.loads(ran.stdout)["predictions"], expected, rtol=0, atol=TOLERANCE)
    ran = subprocess.run([tmp_path / "host", tmp_path, tmp_path / "request"], capture_output=True, text=True)
    assert (ran.returncode, "write one by ctrlab export" in ran.stdout) == (1, True)


def test_the_header_is_one_of_c89(tmp_path):
    source = tmp_path / "c89.c"
    source.write_text('#include "processor/processor_c.h"\nint main(void) { return !sizeof(ctrlab_processor_request); }\n')
    strict = ["-std=c89", "-Wall", "-Wextra", "-pedantic-errors", "-Werror", "-fsyntax-only"]
    made = subprocess.run(["cc", *strict, "-I", NATIVE, source], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


ALONE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])  # RTLD_LOCAL, and nobody has loaded TensorFlow
handle, problem = ctypes.c_uint64(), ctypes.create_string_buffer(500)
code = library.ctrlab_processor_initialize(sys.argv[2].encode(), None, ctypes.byref(handle), problem, ctypes.c_size_t(500))
assert "tensorflow" not in sys.modules
sys.exit(code and problem.value.decode())
"""


def test_a_process_without_tensorflow_opens_it(din):
    ran = subprocess.run([sys.executable, "-c", ALONE, LIBRARY, din[0]], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ctypes.CDLL(str(LIBRARY)).ctrlab_processor_version() == 1
