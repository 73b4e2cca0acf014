"""Requests in each of the processor's formats, and the answers to them, by code that is none of the package's parsers."""

import itertools
import json

import numpy as np
import tensorflow as tf

from ctrlab.serving import wire
from ctrlab.serving.processor import ALL


def plain(tensor):
    """A tensor as JSON has it."""
    values = tensor.numpy()
    return (np.vectorize(bytes.decode, otypes=[object])(values) if tensor.dtype == tf.string and values.size else values).tolist()


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


DATATYPES = {tf.string: "BYTES", tf.bool: "BOOL"} | {
    tf.as_dtype(f"{sign}int{bits}"): f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)
}
DATATYPES |= {tf.float16: "FP16", tf.float32: "FP32", tf.float64: "FP64"}


def raw(tensor):
    """A tensor's bytes in the open inference protocol."""
    if tensor.dtype != tf.string:
        return tensor.numpy().tobytes()
    return b"".join(len(text).to_bytes(4, "little") + text for text in tensor.numpy().ravel().tolist())


def message(number, content):
    return wire.field(number, content)


def typed(tensor):
    """InferTensorContents."""
    if tensor.dtype == tf.string:
        return b"".join(message(8, text) for text in tensor.numpy().ravel().tolist())
    if tensor.dtype in (tf.float32, tf.float64):
        return message(6 if tensor.dtype == tf.float32 else 7, tensor.numpy().tobytes())
    number = {tf.bool: 1, tf.int32: 2, tf.int64: 3}[tensor.dtype]
    return message(number, b"".join(wire.varint(int(n) & (1 << 64) - 1) for n in tensor.numpy().ravel()))


def infer_request(tensors, of_raw=True, more=b""):
    """A ModelInferRequest."""
    body = message(1, b"ctr") + message(3, b"a call") + more
    for name, tensor in tensors.items():
        shape = b"".join(bytes([3 << 3]) + wire.varint(size) for size in tensor.shape)
        contents = b"" if of_raw else message(5, typed(tensor))
        body += message(5, message(1, name.encode()) + message(2, DATATYPES[tensor.dtype].encode()) + shape + contents)
    return body + (b"".join(message(7, raw(tensor)) for tensor in tensors.values()) if of_raw else b"")


def infer_json(tensors, binary):
    """(The body, its header); with `binary`, tensors of numbers stand behind it, and texts in it."""
    given, tail = [], b""
    for name, tensor in tensors.items():
        entry = {"name": name, "shape": [*tensor.shape], "datatype": DATATYPES[tensor.dtype]}
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
