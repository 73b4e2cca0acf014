"""Descriptions of a server and its models for clients, over any protocol.

Sources: tensorflow_serving/apis/get_model_metadata.proto; https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

from importlib.metadata import version

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

DATATYPES = {"string": "BYTES", "int32": "INT32", "int64": "INT64", "float32": "FP32"}
"""The open inference protocol's names of the processor's types."""


def server() -> dict:
    """The open inference protocol's server metadata."""
    return {"name": "ctrlab", "version": version("ctrlab"), "extensions": ["binary_tensor_data"]}


def model(name: str, versions: list[int], info: dict) -> dict:
    """The open inference protocol's model metadata, made from a processor's `info`."""

    def tensors(types: dict[str, str], shape: list[int]) -> list[dict]:
        return [{"name": name, "datatype": DATATYPES[kind], "shape": shape} for name, kind in types.items()]

    return {
        "name": name,
        "versions": [str(number) for number in versions],
        "platform": "ctrlab_processor",
        "inputs": tensors(info["inputs"], [-1]),
        "outputs": tensors(info["outputs"], [-1, -1]),
    }


def signature(info: dict) -> meta_graph_pb2.SignatureDef:
    """TensorFlow Serving's signature metadata, made from a processor's `info`."""
    found = meta_graph_pb2.SignatureDef(method_name="tensorflow/serving/predict")
    for described, types, rank in ((found.inputs, info["inputs"], 1), (found.outputs, info["outputs"], 2)):
        for name, kind in types.items():
            shape = tf.TensorShape([None] * rank).as_proto()
            tensor = meta_graph_pb2.TensorInfo(name=name, dtype=tf.as_dtype(kind).as_datatype_enum, tensor_shape=shape)
            described[name].CopyFrom(tensor)
    return found
