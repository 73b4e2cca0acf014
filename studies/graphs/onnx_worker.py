"""onnxruntime's side of the comparison of served graphs: a stock export, converted by tf2onnx. It runs in its own environment.

    {"do": "open", "version": folder, "requests": {rows: file}, "answers": {rows: file}}
                                            -> {"answered": {rows: numbers of requests}, "notes": {rows: note}, "versions"}
    {"do": "run", "rows": n, "calls": m}    -> {"seconds": of CPU per call}

Requests are files of `studies.peers.cases.save`, a tensor an input; answers are others, {"probabilities": [B, K]} of each request
that was answered. Some are refused, because tf2onnx's conversion of a segment sum divides by 0 if no row has a value.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.profiling.processes import serve
from studies.peers import cases
from studies.peers.session import cpu_per_call

if TYPE_CHECKING:
    from tensorflow.core.framework.graph_pb2 import GraphDef

OPSET = 18
"""The newest ONNX opset that tf2onnx 1.17 writes."""


class Session:
    """The session for one export."""

    def __init__(self, version: str, requests: Mapping[str, str], answers: Mapping[str, str]):
        self.version, self.answers = Path(version), answers
        self.requests = {int(rows): cases.load(file) for rows, file in requests.items()}

    def open(self) -> dict:
        """Converts the graph and answers every request once."""
        import onnxruntime

        model, names, note = converted(self.version)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # the caller's
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        try:
            self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as refused:  # its exceptions have no class of their own
            raise CtrlabError(f"onnxruntime can't load what tf2onnx converted: {_first_line(refused)}") from None
        taken = {each.name for each in self.session.get_inputs()}  # without those that no answer depends on
        self.given = {
            rows: [{names[name]: array for name, array in request.items() if names[name] in taken} for request in requests]
            for rows, requests in self.requests.items()
        }
        answered, notes = {}, {}
        for rows, given in self.given.items():
            answers, refusal = self._answers(given)
            answered[rows] = list(answers)
            notes[rows] = "; ".join(filter(None, [note, refusal]))
            self.given[rows] = [given[i] for i in answers]
            cases.save(Path(self.answers[str(rows)]), [{"probabilities": answer} for answer in answers.values()])
        versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("onnxruntime", "tf2onnx"))
        return {"answered": answered, "notes": notes, "versions": versions}

    def _answers(self, given: Sequence[Mapping[str, np.ndarray]]) -> tuple[dict[int, np.ndarray], str]:
        """{number of a request: its answer}, and a note on the refused requests."""
        answers, refusal = {}, ""
        for i, each in enumerate(given):
            try:
                answers[i] = self._answer(each)
            except Exception as refused:  # its exceptions have no class of their own
                refusal = _first_line(refused)
        if refusal:
            refusal = f"it refuses {len(given) - len(answers)} of {len(given)} requests, which no side gets then: {refusal}"
        return answers, refusal

    def run(self, rows: int, calls: int) -> dict:
        return {"seconds": cpu_per_call(self._answer, self.given[rows], calls)}

    def _answer(self, given: Mapping[str, np.ndarray]) -> np.ndarray:
        return self.session.run(None, given)[0]


def converted(version: Path) -> tuple[bytes, dict[str, str], str]:
    """The ONNX model of a stock export, {input: its name in the model}, and a note on changes to the graph.

    Raises:
        CtrlabError: tf2onnx can't convert it; the message contains tf2onnx's own.
    """
    import tf2onnx
    from tensorflow.core.protobuf import saved_model_pb2

    [meta] = saved_model_pb2.SavedModel.FromString((version / "saved_model.pb").read_bytes()).meta_graphs
    signature = meta.signature_def["serving_default"]
    names = {name: info.name for name, info in signature.inputs.items()}
    outputs, said = [info.name for info in signature.outputs.values()], _Errors()
    note = "log1p(x) is log(1 + x), since tf2onnx knows no Log1p" if _spell_log1p(meta.graph_def) else ""
    logging.getLogger("tf2onnx").addHandler(said)
    try:
        model, _ = tf2onnx.convert.from_graph_def(
            meta.graph_def, input_names=list(names.values()), output_names=outputs, opset=OPSET
        )
    except Exception as refused:  # of any class
        said.lines.append(_first_line(refused))
    if said.lines:  # of an op that it does not know it only says so, and goes on
        raise CtrlabError(f"tf2onnx can't convert it: {said.lines[0]}")
    return model.SerializeToString(), names, note


def _spell_log1p(graph: GraphDef) -> int:
    """Replaces log1p(x) by log(1 + x); returns the number of replacements."""
    import tensorflow as tf

    found = [node for node in graph.node if node.op == "Log1p"]
    for node in found:
        one = graph.node.add(name=f"{node.name}/one", op="Const")
        one.attr["dtype"].CopyFrom(node.attr["T"])
        one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1, node.attr["T"].type, []))
        total = graph.node.add(name=f"{node.name}/total", op="AddV2", input=[node.input[0], one.name])
        total.attr["T"].CopyFrom(node.attr["T"])
        node.op, node.input[0] = "Log", total.name
    return len(found)


class _Errors(logging.Handler):
    """The errors that a library logs."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage().strip().partition("\n")[0])


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


if __name__ == "__main__":
    serve(Session)
