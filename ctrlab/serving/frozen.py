"""A stock export: stock ops, and all weights as constants in the graph. It has nothing to load beside the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from ctrlab.embedding.variable import embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.models.base import CTRModel
from ctrlab.optimizations import STOCK
from ctrlab.serving.graph import saved_model, traced
from ctrlab.serving.inputs import Input
from ctrlab.serving.own import OwnModel
from ctrlab.serving.weights import finite

MOST_BYTES = (1 << 31) - (64 << 20)
"""The most bytes of weights in a stock export: the graph is written as protobuf, which is limited to 2 GB."""


def is_stock(model: CTRModel | OwnModel, inputs: Sequence[Input]) -> bool:
    """Whether the export is a stock one. For the six models their optimizations decide; an own model's is stock whenever
    possible.
    """
    if isinstance(model, CTRModel):
        return model.rungs <= {STOCK.name}
    return _bytes(model) <= MOST_BYTES and not traced(model, inputs).compiled


def _bytes(model: keras.Model) -> int:
    return sum(v.value.shape.num_elements() * v.value.dtype.size for v in model.variables if v.dtype != "string")


def frozen(model: CTRModel | OwnModel, inputs: Sequence[Input]) -> saved_model_pb2.SavedModel:
    """A SavedModel with one signature: inputs, a result of `inputs_of`, -> probabilities, or what an own model gives.

    Args:
        model: a model with the optimizations "none" or "stock".
    Raises:
        CtrlabError: the weights are larger than a stock export can hold, or not finite; or the model has embedding variables.
    """
    if grown := embedding_variables(model):
        raise CtrlabError(
            f"A stock export holds constants, and an embedding variable is none; {model.name} has {len(grown)}, such as "
            f"{grown[0].name}: export it with optimizations='all'."
        )
    if (size := _bytes(model)) > MOST_BYTES:
        raise CtrlabError(
            f"A stock export holds its weights in the graph, at most {MOST_BYTES / 1e9:.1f} GB; {model.name} has "
            f"{size / 1e9:.1f} GB: export it with optimizations='all'."
        )
    trace = traced(model, inputs)
    values = [
        *((read, table.numpy()) for table, _, read in trace.tables),
        *zip(trace.dense, trace.dense_values(trace.weight_values())),
    ]
    with tf.Graph().as_default() as graph:
        constants = {tensor.name: tf.constant(finite(value, tensor.name)) for tensor, value in values}
        tf.import_graph_def(trace.graph.as_graph_def(), constants, name="")
    return saved_model(graph, _names(trace.inputs), _names(trace.outputs))


def _names(tensors: Mapping[str, tf.Tensor]) -> dict[str, str]:
    return {name: tensor.name for name, tensor in tensors.items()}
