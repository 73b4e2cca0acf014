"""Descriptions of a server and its models for clients, over any protocol.

Sources: tensorflow_serving/apis/get_model_metadata.proto; https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

from importlib.metadata import version

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

DATATYPES = {"string": "BYTES", "bool": "BOOL", "float16": "FP16", "float32": "FP32", "float64": "FP64"} | {
    f"{sign}int{bits}": f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""The open inference protocol's names of the processor's types."""


def server() -> dict:
    """The open inference protocol's server metadata."""
    return {"name": "ctrlab", "version": version("ctrlab"), "extensions": ["binary_tensor_data"]}


def model(name: str, versions: list[int], info: dict) -> dict:
    """The open inference protocol's model metadata, made from a processor's `info`."""

    def tensors(of: str) -> list[dict]:
        shapes = info[f"{of}_shapes"]
        return [{"name": n, "datatype": DATATYPES[kind], "shape": shapes[n]} for n, kind in info[f"{of}s"].items()]

    return {
        "name": name,
        "versions": [str(number) for number in versions],
        "platform": "ctrlab_processor",
        "inputs": tensors("input"),
        "outputs": tensors("output"),
    }


def signature(info: dict) -> meta_graph_pb2.SignatureDef:
    """TensorFlow Serving's signature metadata, made from a processor's `info`."""
    found = meta_graph_pb2.SignatureDef(method_name="tensorflow/serving/predict")
    for described, of in ((found.inputs, "input"), (found.outputs, "output")):
        for name, kind in info[f"{of}s"].items():
            shape = tf.TensorShape([None if size < 0 else size for size in info[f"{of}_shapes"][name]]).as_proto()
            tensor = meta_graph_pb2.TensorInfo(name=name, dtype=tf.as_dtype(kind).as_datatype_enum, tensor_shape=shape)
            described[name].CopyFrom(tensor)
    return found
