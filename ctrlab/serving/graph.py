"""The graph that answers requests: a model traced once, with a placeholder for each of its weights.

A server never changes a weight during a call. So values that depend only on weights (the scale and shift of a batch
normalization, weights in bfloat16) are computed once, at the export. The exported graph begins where weights and request first
meet; the weights' tensors at that border are the *dense tensors* of the export.

    weights ──► computed at the export ──► dense tensors ──┐
    tables ────────────────────────────────────────────────┼──► the graph of a call ──► probabilities
    request ───────────────────────────────────────────────┘
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from ctrlab import keras_hooks
from ctrlab.embedding.table.ops import served_by
from ctrlab.embedding.variable import EmbeddingVariable, embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.models.base import CTRModel
from ctrlab.models.graph_names import graph_name
from ctrlab.models.tables import Embeddings, rows_of_all
from ctrlab.ops.refusals import sentence
from ctrlab.serving.inputs import Input, filled, specs_of, to_features
from ctrlab.serving.own import OUTPUT, OwnModel

SIGNATURE = "serving_default"
INITIALIZER = "__saved_model_init_op"
"""TensorFlow's name of the op that a loader runs."""
PARSING = "parsing"
"""The rung whose op checks splits and numbers of rows; without it the graph must check them."""
ASSERTING = ("Assert", "If", "While")
"""Ops that may refuse a request. Nothing takes their result, so the outputs have to wait for them. (A branch or a loop without an
assertion in it is of another type: StatelessIf, StatelessWhile.)"""

NUMBERS = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64, tf.bool)
LOOKUPS = (keras.layers.StringLookup, keras.layers.IntegerLookup, keras.layers.TextVectorization)


@dataclass(frozen=True)
class Trace:
    """The graph of a call.

    Attributes:
        inputs: {name of an input: its placeholder}.
        weights: the model's weights except its tables, and constants of its layers, such as the means of a Normalization; each
            with its placeholder.
        dense: the dense tensors: functions of `weights`.
        tables: the tables with a fixed number of rows, each with its resource's placeholder, and the tensor that is read from it.
        growing: the embedding variables, each with its resource's placeholder.
        outputs: {name of an output: its tensor}: the probabilities; of an own model its outputs.
    """

    graph: tf.Graph
    inputs: dict[str, tf.Tensor]
    weights: list[tuple[keras.Variable | tf.Tensor, tf.Tensor]]
    dense: list[tf.Tensor]
    tables: list[tuple[keras.Variable, tf.Tensor, tf.Tensor]]
    growing: list[tuple[EmbeddingVariable, tf.Tensor]]
    outputs: dict[str, tf.Tensor]

    @property
    def compiled(self) -> bool:
        """Whether the graph has ops of ours."""
        definition = self.graph.as_graph_def()
        nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
        return any(node.op.startswith("Ctrlab>") for node in nodes)

    def weight_values(self) -> dict[str, np.ndarray]:
        """The model's current weights, for `dense_values`."""
        return {placeholder.name: weight.numpy() for weight, placeholder in self.weights}

    def dense_values(self, weights: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The dense tensors of these weights."""
        return self._session.run([tensor.name for tensor in self.dense], dict(weights))

    @functools.cached_property
    def _session(self) -> tf.compat.v1.Session:
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(self.graph.as_graph_def(), name="")
        return tf.compat.v1.Session(graph=graph)


def traced(model: CTRModel | OwnModel, inputs: Sequence[Input]) -> Trace:
    """The graph of a call with these inputs, a result of `inputs_of`. For a worker's model, the graph is that of the whole
    model.
    """
    tables = [v for layer in keras_hooks.all_layers(model) if isinstance(layer, Embeddings) for v in layer.tables.values()]
    weights = [v for v in model.variables if v.dtype != "string" and all(v is not table for table in tables)]
    graph = keras_hooks.function_graph("serve")
    with graph.as_default():
        ends = {name: _placeholder(_end(name), spec.dtype, spec.shape) for name, spec in specs_of(inputs).items()}
        given = [(v, _placeholder("weight", v.dtype, v.shape)) for v in weights]
        fixed = [(v, *_read(v)) for v in tables]
        growing = [(v, _placeholder("table", tf.resource, [])) for v in embedding_variables(model)]
        with keras.StatelessScope(state_mapping=given) as scope, served_by(dict(growing)):
            for table, _, read in fixed:
                scope.add_update((table, read))  # whose rows may be more than this worker's
            outputs = outputs_of(model, inputs, ends)
        with tf.control_dependencies([_passed(op) for op in graph.get_operations() if op.type in ASSERTING]):
            outputs = {name: tf.identity(output) for name, output in outputs.items()}
    held = [(value, end) for value, end in graph.captures if end.op.type != "Const"]  # TensorFlow makes constants of small ones
    given += [(value, end) for value, end in held if end.dtype in NUMBERS]
    if odd := [end for _, end in held if end.dtype not in NUMBERS]:
        raise CtrlabError(_no_weights(model, odd))
    return Trace(graph, ends, given, _dense(graph, [end for _, end in given]), fixed, growing, outputs)


def outputs_of(model: CTRModel | OwnModel, inputs: Sequence[Input], request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """{output: values} of the model's answer to the tensors of a request; of the six models, probabilities [B, K]."""
    features = to_features(request, inputs, validate=PARSING not in model.rungs)
    if isinstance(model, CTRModel):
        return {OUTPUT: model.probabilities(filled(features, model.input_schema))}
    return model.outputs_of(features)


def probabilities(model: CTRModel | OwnModel, inputs: Sequence[Input], request: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """The answer of `outputs_of` as one matrix, float32 [B, K], as `by_rows` has it."""
    found = [values for _, values in sorted(outputs_of(model, inputs, request).items())]
    flat = [tf.reshape(values, [tf.shape(values)[0], tf.reduce_prod(tf.shape(values)[1:])]) for values in found]
    return flat[0] if len(flat) == 1 else tf.concat([tf.cast(values, tf.float32) for values in flat], 1)


def by_rows(outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The values of each row side by side, [B, K], those of several outputs in the order of their names."""
    return np.concatenate([values.reshape(len(values), math.prod(values.shape[1:])) for _, values in sorted(outputs.items())], 1)


def _no_weights(model: CTRModel | OwnModel, odd: Sequence[tf.Tensor]) -> str:
    lookups = [layer.name for layer in keras_hooks.all_layers(model) if isinstance(layer, LOOKUPS)]
    said = f"An export holds the weights of its model; {model.name} also reads what is none, such as "
    if lookups:
        return f"{said}the vocabulary of layer {lookups[0]}: look words up before the model, whose column then takes their ids."
    return f"{said}{odd[0].name}: keep numbers in weights of a layer (add_weight), and leave out what is no number."


def _passed(op: tf.Operation) -> tf.Operation | tf.Tensor:
    """The tensor for which the ops after an assertion must wait. A session takes a branch apart: then the branch's result
    waits for assertions inside it, but a control edge from the branch itself does not.
    """
    return tf.identity(op.outputs[0]) if op.outputs else op


def saved_model(
    graph: tf.Graph,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    initializer: tf.Operation | None = None,
    assets: Mapping[str, tf.Tensor] | None = None,
) -> saved_model_pb2.SavedModel:
    """A SavedModel with the ops that the outputs need; inputs and outputs are given by their tensors' names.

    Args:
        initializer: an op that runs once, when the model is loaded.
        assets: {file in the folder `assets`: the tensor that receives its path}.
    """
    keep = [name.rpartition(":")[0] for name in (*inputs.values(), *outputs.values())]
    keep += [initializer.name] if initializer is not None else []
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta = saved.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.meta_info_def.tensorflow_version = tf.__version__
    _copy_needed(graph.as_graph_def(), keep, meta.graph_def)
    signature = meta.signature_def[SIGNATURE]
    signature.method_name = "tensorflow/serving/predict"
    for name, tensor in inputs.items():
        signature.inputs[name].CopyFrom(_info(graph.get_tensor_by_name(tensor)))
    for name, tensor in outputs.items():
        signature.outputs[name].CopyFrom(_info(graph.get_tensor_by_name(tensor)))
    if initializer is not None:
        run = meta.signature_def[INITIALIZER].outputs[INITIALIZER]
        run.name = initializer.name
    for file, path in (assets or {}).items():
        meta.asset_file_def.add(filename=file).tensor_info.name = path.name
    return saved


def answers(folder: Path, requests: Iterable[Mapping[str, tf.Tensor]]) -> Iterator[np.ndarray]:
    """The answer to each request, from a version's folder, [B, K]: see `by_rows`.

    Raises:
        CtrlabError: the version can't be loaded, or refuses a request.
    """
    try:
        with opened(folder) as (session, signature):
            for request in requests:
                feed = {signature.inputs[name].name: tensor.numpy() for name, tensor in request.items()}
                yield by_rows(session.run({name: info.name for name, info in signature.outputs.items()}, feed))
    except tf.errors.OpError as error:
        raise CtrlabError(f"A version is tried before it appears, and it refused: {sentence(error)}") from None


@contextlib.contextmanager
def opened(
    folder: Path, request: Mapping[str, tf.Tensor] | None = None, *, intra_op_threads: int = 0, inter_op_threads: int = 0
) -> Iterator[tuple[tf.compat.v1.Session, meta_graph_pb2.SignatureDef]]:
    """Opens a version in a session of TensorFlow itself. Returns the session and the names of its inputs and outputs.

    Args:
        request: values of the inputs that are not fed. They are held in variables, because TensorFlow would compute values ahead
            that depend on constants or on defaults of placeholders.
        intra_op_threads: number of threads among which an op splits its work. inter_op_threads: number of threads that run ops.
            0: TensorFlow chooses both.
    """
    [meta] = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs
    signature = meta.signature_def[SIGNATURE]
    assets = {each.tensor_info.name: str(folder / "assets" / each.filename) for each in meta.asset_file_def}
    config = tf.compat.v1.ConfigProto(
        use_per_session_threads=bool(intra_op_threads or inter_op_threads),
        intra_op_parallelism_threads=intra_op_threads,
        inter_op_parallelism_threads=inter_op_threads,
    )
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        with tf.name_scope("request"):  # apart from the names of the version's graph
            held = {name: tf.Variable(tensor.numpy(), trainable=False) for name, tensor in (request or {}).items()}
            given = {signature.inputs[name].name: variable.read_value() for name, variable in held.items()}
        tf.import_graph_def(meta.graph_def, input_map=given, name="")
        session.run([variable.initializer for variable in held.values()])
        if INITIALIZER in meta.signature_def:
            session.run(meta.signature_def[INITIALIZER].outputs[INITIALIZER].name, assets)
        yield session, signature


def _copy_needed(whole: GraphDef, ends: Sequence[str], to: GraphDef) -> None:
    """Copies the nodes that the ends need. (TensorFlow's own function for this is deprecated and logs a warning.)"""
    nodes = {node.name: node for node in whole.node}
    needed, left = set(), list(ends)
    while left:
        name = left.pop().lstrip("^").partition(":")[0]
        if name not in needed:
            needed.add(name)
            left += nodes[name].input
    to.node.extend(node for node in whole.node if node.name in needed)
    to.library.CopyFrom(whole.library)
    to.versions.CopyFrom(whole.versions)


def _end(name: str) -> str:
    """Makes the placeholder of an input. Names in a graph must begin with a letter, a digit or a dot."""
    name = graph_name(name.replace("/", "."))
    return name if name[0].isalnum() or name[0] == "." else f"input{name}"


def _placeholder(name: str, dtype, shape) -> tf.Tensor:
    return tf.compat.v1.placeholder(dtype, shape, name)


def _read(table: keras.Variable) -> tuple[tf.Tensor, tf.Tensor]:
    """A placeholder for the table's resource, and the tensor that is read from it."""
    handle = _placeholder("table", tf.resource, [])
    read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=table.dtype)
    read.set_shape([rows_of_all(table), *table.shape[1:]])
    return handle, read


def _dense(graph: tf.Graph, weights: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The tensors that depend only on weights and constants, and are inputs of other ops."""
    weighs = {weight.op: None for weight in weights}  # in an order that is the same in each process
    constant: set[tf.Operation] = set()
    for op in graph.get_operations():  # each after those it takes from
        if op.type == "Const":
            constant.add(op)
        elif op.inputs and not op.control_inputs and not op.op_def.is_stateful:
            takes = {tensor.op for tensor in op.inputs}
            if takes <= constant:
                constant.add(op)
            elif takes <= constant | weighs.keys():
                weighs[op] = None
    return [tensor for op in weighs for tensor in op.outputs if any(user not in weighs for user in tensor.consumers())]


def _info(tensor: tf.Tensor) -> meta_graph_pb2.TensorInfo:
    return meta_graph_pb2.TensorInfo(name=tensor.name, dtype=tensor.dtype.as_datatype_enum, tensor_shape=tensor.shape.as_proto())
