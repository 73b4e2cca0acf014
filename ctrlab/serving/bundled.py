"""An export with compiled ops: the graph, and beside it the weights, which the graph's initializer loads (native/serving).

Two ops give a call all of its weights: one the handles of all tables, the other all dense tensors. So the size of the graph does
not depend on that of the weights, and the process that loads it keeps one copy of them, whatever number of sessions it has.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from ctrlab import _native
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.models.base import CTRModel
from ctrlab.serving.graph import saved_model, traced
from ctrlab.serving.inputs import Input
from ctrlab.serving.weights import write_weights

WEIGHTS = "weights"
"""The file's name in the folder of assets: TensorFlow gives the initializer the path of an asset wherever the folder lies."""


def bundled(
    model: CTRModel, inputs: Sequence[Input], memory_rows: int | None = None
) -> tuple[saved_model_pb2.SavedModel, Callable[[Path], None]]:
    """A SavedModel with one signature, as `ctrlab.serving.frozen` has it; and what writes its weights into a version's folder.

    Args:
        memory_rows: of each embedding variable, the rows that a server keeps in memory; the others lie on its disk. None: as in
            training.
    """
    trace = traced(model, inputs)
    dense = trace.dense_values()
    limits = [_memory_rows(table, memory_rows) for table, _ in trace.growing]
    tables = [table for table, *_ in trace.tables]
    grown = [table for table, _ in trace.growing]
    ops, bundle = _native.library().ops, secrets.token_hex(16)
    with tf.Graph().as_default() as graph:
        connected: dict[str, tf.Tensor] = {}
        if tables or grown:
            handles = ops.ctrlab_serving_tables(bundle=bundle, T=len(tables) + len(grown), name="tables")
            ends = [handle for _, handle, _ in trace.tables] + [handle for _, handle in trace.growing]
            connected |= {end.name: handle for end, handle in zip(ends, handles)}
        types = [tensor.dtype for tensor in trace.dense]
        found = ops.ctrlab_serving_dense(bundle=bundle, types=types, shapes=[t.shape for t in trace.dense], name="dense")
        connected |= {tensor.name: value for tensor, value in zip(trace.dense, found)}
        tf.import_graph_def(trace.graph.as_graph_def(), connected, name="")
        path = tf.constant(WEIGHTS, name="path")
        opened = ops.ctrlab_serving_open(
            path=path,
            bundle=bundle,
            table_names=[table.name for table in tables + grown],
            table_dims=[table.shape[1] for table in tables] + [table.dim for table in grown],
            table_rows=[table.shape[0] for table in tables] + [-1] * len(grown),
            memory_rows=[0] * len(tables) + limits,
            dense_bytes=[value.nbytes for value in dense],
            name="open",
        )
    inner = {name: tensor.name for name, tensor in trace.inputs.items()}
    saved = saved_model(graph, inner, trace.output.name, opened, {WEIGHTS: path})

    def write(folder: Path) -> None:
        (folder / "assets").mkdir()
        write_weights(folder / "assets" / WEIGHTS, tables, list(zip(grown, limits)), dense)

    return saved, write


def _memory_rows(table: EmbeddingVariable, asked: int | None) -> int:
    if asked is not None:
        return asked
    return table.options.storage.memory_rows if table.options.storage else 0
