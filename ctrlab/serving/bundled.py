"""An export with compiled ops: the graph, and beside it the weights, which the graph's initializer loads (native/serving).

Two ops give a call all of its weights: one op the handles of all tables, the other op all dense tensors. So the size of the graph
does not depend on the weights. A process keeps one copy of them for any number of sessions.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.protobuf import saved_model_pb2

from ctrlab import _native
from ctrlab.embedding.table.cut import Cut
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.errors import CtrlabError
from ctrlab.models.base import CTRModel
from ctrlab.optimizations import resolve
from ctrlab.serving.graph import saved_model, traced
from ctrlab.serving.inputs import Input
from ctrlab.serving.own import OwnModel
from ctrlab.serving.rows import Format
from ctrlab.serving.weights import Moment, write_weights

FORMATS: dict[str, Format] = {"bf16_rows": "bf16", "int8_rows": "int8"}
LOOKUP = "Ctrlab>Lookup"
WEIGHTS = "weights"
"""The name of the weights file in the folder of assets. TensorFlow gives the initializer an asset's path, wherever the folder
lies.
"""


def weights_in(folder: Path) -> Path:
    """The path of the weights in a version's folder; makes the folder of assets."""
    (folder / "assets").mkdir()
    return folder / "assets" / WEIGHTS


class Bundled:
    """A model's graph, traced once, for any number of exports.

    Args:
        inputs: a result of `inputs_of`.
        memory_rows: the number of rows of each embedding variable that a server keeps in memory; the others lie on its disk.
            None: as in training.
    Attributes:
        trace: the graph of a call.
        tables, growing: the tables with a fixed number of rows, and the embedding variables, in the order of their numbers.
        limits: `memory_rows` for each of `growing`; 0: all rows.
        formats: the format of each table's rows, fixed tables first.
    Raises:
        CtrlabError: rows shall be packed, but stock ops read them.
    """

    def __init__(
        self,
        model: CTRModel | OwnModel,
        inputs: Sequence[Input],
        memory_rows: int | None = None,
        optimizations: str | Iterable[str] = "none",
    ):
        self.trace = traced(model, inputs)
        self.tables = [table for table, *_ in self.trace.tables]
        self.growing = [table for table, _ in self.trace.growing]
        self.limits = [_memory_rows(table, memory_rows) for table in self.growing]
        self.rungs = resolve(optimizations, level="serving")
        self.formats = self._formats()

    def saved_model(self, bundle: str) -> saved_model_pb2.SavedModel:
        """A SavedModel with one signature, as `ctrlab.serving.frozen` has it, and `bundle` for the name of its weights."""
        trace, ops = self.trace, _native.library().ops
        with tf.Graph().as_default() as graph:
            connected: dict[str, tf.Tensor] = {}
            if self.tables or self.growing:
                handles = ops.ctrlab_serving_tables(bundle=bundle, T=len(self.tables) + len(self.growing), name="tables")
                ends = [handle for _, handle, _ in trace.tables] + [handle for _, handle in trace.growing]
                connected |= {end.name: handle for end, handle in zip(ends, handles)}
            types, shapes = [tensor.dtype for tensor in trace.dense], [tensor.shape for tensor in trace.dense]
            dense = ops.ctrlab_serving_dense(bundle=bundle, types=types, shapes=shapes, name="dense")
            connected |= {tensor.name: value for tensor, value in zip(trace.dense, dense)}
            tf.import_graph_def(self._definition(), connected, name="")
            path = tf.constant(WEIGHTS, name="path")
            opened = ops.ctrlab_serving_open(
                path=path,
                bundle=bundle,
                table_names=[table.name for table in self.tables + self.growing],
                table_dims=[table.shape[1] for table in self.tables] + [table.dim for table in self.growing],
                table_rows=[read.shape[0] for _, _, read in trace.tables] + [-1] * len(self.growing),
                memory_rows=[0] * len(self.tables) + self.limits,
                row_formats=self.formats,
                dense_bytes=[shape.num_elements() * dtype.size for dtype, shape in zip(types, shapes)],
                name="open",
            )
        inner, outer = ({name: end.name for name, end in ends.items()} for ends in (trace.inputs, trace.outputs))
        return saved_model(graph, inner, outer, opened, {WEIGHTS: path})

    def write(self, folder: Path, bundle: str, step: int) -> None:
        """Writes the model's current weights into a version's folder. The model must not be trained meanwhile."""
        dense = self.trace.dense_values(self.trace.weight_values())
        tables = [table.value for table in self.tables]
        with contextlib.closing(self._cuts()) as cuts:
            write_weights(weights_in(folder), bundle, Moment.now(step), tables, cuts, dense, self.formats)

    def _formats(self) -> list[Format]:
        """The row format of each table. Rows of one number, the linear weights, are not packed: each would need a scale larger
        than itself.
        """
        packed = _packed(self.rungs)
        fixed = [packed if table.shape[1] > 1 else "float32" for table in self.tables]
        growing = [packed if table.dim > 1 else "float32" for table in self.growing]
        for (table, handle, read), format in zip(self.trace.tables, fixed):
            others = [op for op in handle.consumers() if op.type != LOOKUP and op is not read.op] + read.consumers()
            if format != "float32" and others:
                raise CtrlabError(
                    f"Packed rows are read by the lookup of rung 'lookup'; those of table {table.name} are read by stock ops: "
                    "build the model with optimizations='all'."
                )
        return fixed + growing

    def _definition(self) -> GraphDef:
        """The trace's graph, with the formats of the tables set in its lookups."""
        definition = self.trace.graph.as_graph_def()
        formats = {handle.op.name: format for (_, handle, _), format in zip(self.trace.tables, self.formats)}
        for node in definition.node:
            if node.op == LOOKUP:
                own = [formats[name] for name in node.input[: node.attr["T"].i]]
                if set(own) != {"float32"}:
                    node.attr["row_formats"].list.s[:] = [format.encode() for format in own]
        return definition

    def _cuts(self) -> Iterator[tuple[Cut, bool]]:
        """Yields the cuts of the tables one after the other, because each cut is a copy of the rows in memory."""
        consumer = f"export {secrets.token_hex(8)}"
        for table, limit in zip(self.growing, self.limits):
            try:
                yield table.cut(consumer), bool(limit)
            finally:
                table.forget(consumer)  # the table would log changes for it


def _packed(rungs: Iterable[str]) -> Format:
    """The row format that the last selected rung of the ladder sets."""
    return next((FORMATS[name] for name in reversed(tuple(rungs)) if name in FORMATS), "float32")


def _memory_rows(table: EmbeddingVariable, asked: int | None) -> int:
    if asked is not None:
        return asked
    return table.options.storage.memory_rows if table.options.storage else 0
