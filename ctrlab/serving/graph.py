"""The graph that a stock export holds: stock ops, flat inputs, and all weights as constants.

The model is traced with a constant in place of each variable (Keras's `StatelessScope`). So the graph has no variable, no
training op and nothing to initialize.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from ctrlab.errors import CtrlabError
from ctrlab.models.base import CTRModel
from ctrlab.serving.inputs import Input, specs_of, to_features

SIGNATURE, OUTPUT = "serving_default", "probabilities"
MOST_BYTES = (1 << 31) - (64 << 20)
"""Of weights in a stock export: protobuf, in which the graph is written, takes 2 GB at most."""


def frozen(model: CTRModel, inputs: Sequence[Input]) -> saved_model_pb2.SavedModel:
    """A SavedModel with one signature: inputs as `inputs_of` gives them -> probabilities, float32 [B, K].

    Raises:
        CtrlabError: the weights are larger than a stock export can hold.
    """
    weights = [v for v in model.variables if v.dtype != "string"]
    if (size := sum(v.value.shape.num_elements() * v.value.dtype.size for v in weights)) > MOST_BYTES:
        raise CtrlabError(
            f"A stock export holds its weights in the graph, at most {MOST_BYTES / 1e9:.1f} GB; {model.name} has "
            f"{size / 1e9:.1f} GB: train it with smaller tables (multihash)."
        )
    specs, values = specs_of(inputs), [v.numpy() for v in weights]

    @tf.function(input_signature=[tf.TensorSpec(spec.shape, spec.dtype) for spec in specs.values()], autograph=False)
    def serve(*tensors):
        constants = [(v, tf.constant(value)) for v, value in zip(weights, values)]
        features = to_features(dict(zip(specs, tensors)), inputs)
        with keras.StatelessScope(state_mapping=constants):
            return tf.sigmoid(model(features, training=False))

    traced = serve.get_concrete_function()
    if traced.captured_inputs:
        raise CtrlabError(
            f"A stock export holds constants; {model.name} has {len(traced.captured_inputs)} objects that can't be one."
        )
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta = saved.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.meta_info_def.tensorflow_version = tf.__version__
    meta.graph_def.CopyFrom(traced.graph.as_graph_def())
    signature = meta.signature_def[SIGNATURE]
    signature.method_name = "tensorflow/serving/predict"
    for name, tensor in zip(specs, traced.inputs):
        signature.inputs[name].CopyFrom(_info(tensor))
    signature.outputs[OUTPUT].CopyFrom(_info(traced.outputs[0]))
    return saved


def answers(saved: saved_model_pb2.SavedModel, requests: Iterable[Mapping[str, tf.Tensor]]) -> Iterator[np.ndarray]:
    """The probabilities of each request."""
    [meta] = saved.meta_graphs
    signature = meta.signature_def[SIGNATURE]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(meta.graph_def, name="")
        for request in requests:
            feed = {signature.inputs[name].name: tensor.numpy() for name, tensor in request.items()}
            yield session.run(signature.outputs[OUTPUT].name, feed)


def _info(tensor: tf.Tensor) -> meta_graph_pb2.TensorInfo:
    return meta_graph_pb2.TensorInfo(name=tensor.name, dtype=tensor.dtype.as_datatype_enum, tensor_shape=tensor.shape.as_proto())
