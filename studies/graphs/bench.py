"""Served graphs without a front, from ids: TensorFlow's session, onnxruntime and our processor with the same requests.

    TensorFlow             the export of best stock ops, in a session of TensorFlow's own
    onnxruntime            the same graph, converted by tf2onnx
    stock, our processor   the same export
    all, our processor     all rungs that don't change results

Each has one thread, the caller's. The first two take tensors, our processor a PredictRequest, which it also has to parse.

ONNX has no op that hashes text as TensorFlow does, so requests hold ids. The conversion of text to ids is timed separately: by
TensorFlow's ops, which a front before onnxruntime has to run, and by our parsing op. CPU time per call is that of the answering
process, by its own clock: other work on the machine hardly changes it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import config_pb2

from ctrlab import data, profiles
from ctrlab.errors import CtrlabError
from ctrlab.load import requests
from ctrlab.model_names import DATA_SETS
from ctrlab.models import CTRModel, build
from ctrlab.plain import Plain
from ctrlab.profiling.environments import Environment
from ctrlab.profiling.processes import Worker, WorkerDied
from ctrlab.profiling.progress import track
from ctrlab.profiling.timing import Interval, paired
from ctrlab.schema import Schema
from ctrlab.server.described import DATATYPES
from ctrlab.serving import export_model, wire
from ctrlab.serving.graph import OUTPUT, opened
from ctrlab.serving.inputs import Features, filled, inputs_of, specs_of, to_features, to_tensors
from ctrlab.serving.processor import Processor
from ctrlab.serving.warm_up import predict_request
from studies.peers import cases, environments
from studies.peers.cases import Batch
from studies.peers.environments import Peer
from studies.peers.session import cpu_per_call

CANDIDATES = (1, 200)
BODIES, CALLED_ROWS = 16, 10_000
"""Number of requests; number of rows in a block of calls, which has at most `MOST_CALLS` calls."""
MOST_CALLS, TINY_CALLS = 500, 5
SAME = 1e-5
SEED, SPREAD = 2021, 0.05
TENSORFLOW, ONNX = "TensorFlow", "onnxruntime"
PEER = Peer(
    ONNX,
    "studies.graphs.onnx_worker",
    (),
    Environment(
        ONNX,
        ("tensorflow==2.21.0", "tf2onnx==1.17.0", "onnx==1.23.2", "onnxruntime==1.32.0", "numpy==2.4.6", "protobuf==7.36.2"),
    ),
)
HASHING = {"stock": "TensorFlow's ops", "all": "our op"}
"""The sides whose parsing is timed: {optimizations: the side}."""
CALLERS_THREAD = -1
"""The pool for inter-op work with which TensorFlow runs ops on the calling thread."""

Part = Literal["graph", "hashing"]
"""The parts: from ids to probabilities, and from text to ids."""


@dataclass(frozen=True)
class GraphCost(Plain):
    """A side on a model.

    Attributes:
        rows: number of candidates of a request.
        cpu: CPU seconds per call, one number per round; sample i of all sides of a part comes from round i. If it is empty,
            `note` says why.
        difference: the largest difference between its answers and those of the part's first side; None without answers.
        versions: versions of the other library. note: changes to the graph for this side, or why it could not run.
    """

    model: str
    rows: int
    part: Part
    side: str
    cpu: tuple[float, ...] = ()
    difference: float | None = None
    versions: str = ""
    note: str = ""

    def less_than(self, first: GraphCost) -> Interval:
        """CPU time of the part's first side, divided by that of this side."""
        return Interval.of([theirs / own for theirs, own in zip(first.cpu, self.cpu)])


@dataclass(frozen=True)
class _Requests:
    """Requests of one number of candidates: their columns of text, with defaults for empty words, and their tensors from ids."""

    texts: list[Features]
    ids: list[Batch]

    def only(self, numbers: Sequence[int]) -> _Requests:
        return _Requests([self.texts[i] for i in numbers], [self.ids[i] for i in numbers])


@dataclass
class _Side:
    """A side on requests of one number of candidates.

    Attributes:
        answers: the answers to each request, [B, K]; or the ids of all columns, one after the other. A side without answers does
            not run.
        cpu_per_call: a function of a number of calls that returns the CPU seconds per call.
    """

    answers: list[np.ndarray]
    cpu_per_call: Callable[[int], float] | None = None
    versions: str = ""
    note: str = ""

    def block(self, calls: int) -> float | None:
        """CPU seconds per call; None, with the reason noted, once another library's process has ended."""
        try:
            return self.cpu_per_call(calls) if self.answers else None
        except WorkerDied as problem:
            self.answers, self.note = [], str(problem)
            return None


def bench_graphs(
    models: Sequence[str], profile: str | None = None, command: Callable[[Peer], list[str]] = environments.command
) -> Iterator[GraphCost]:
    """Measures one row per model, number of `CANDIDATES`, part and side.

    Args:
        command: starts onnxruntime's worker.
    Raises:
        CtrlabError: one of our sides gives other answers than TensorFlow's.
    """
    size = profiles.current(profile)
    for model in models:
        files = data.prepare(DATA_SETS[model], profile=size)
        table = pq.read_table(files.test[0])
        with tempfile.TemporaryDirectory(prefix="ctrlab-graphs-") as folder, contextlib.ExitStack() as held:
            built = _built(model)
            for name, each in built.items():
                export_model(each, Path(folder, name, model), inputs="ids")
            asked = {count: _requests(table, files.schema, built["stock"], count) for count in CANDIDATES}
            ids = {count: of.ids for count, of in asked.items()}
            converted = held.enter_context(_converted(Path(folder), model, ids, command))
            for count, of in asked.items():
                calls = TINY_CALLS if size.name == "tiny" else min(MOST_CALLS, CALLED_ROWS // count)
                onnx, answered = converted[count]
                of = of.only(answered)
                with contextlib.ExitStack() as running:
                    graphs = _graphs(Path(folder), model, of.ids, running)
                    sides = {TENSORFLOW: graphs.pop(TENSORFLOW), ONNX: onnx, **graphs}
                    rows = _measured(model, count, "graph", sides, calls, size.repetitions)
                yield from rows  # not before: a session that is open makes its graph the caller's
                with contextlib.ExitStack() as running:
                    sides = {side: _hashing(built[name], of.texts, running) for name, side in HASHING.items()}
                    rows = _measured(model, count, "hashing", sides, calls, size.repetitions)
                yield from rows


def _built(model: str) -> dict[str, CTRModel]:
    """The model with each set of optimizations and the same weights. Fresh weights would be so small, or zero, that the
    answers would not show if a part of the graph were missing.
    """
    built = {name: build(model, optimizations=name) for name in HASHING}
    for each in built.values():
        for i, weight in enumerate(sorted(each.trainable_variables, key=lambda weight: weight.path)):
            weight.assign_add(SPREAD * tf.random.stateless_normal(weight.shape, [SEED, i]))
    return built


def _measured(model: str, count: int, part: Part, sides: Mapping[str, _Side], calls: int, rounds: int) -> list[GraphCost]:
    """The rows of the sides, measured in pairs. A side of another library that gives other answers has a row without figures."""
    first, apart = next(iter(sides)), {}
    for name, side in sides.items():
        apart[name] = _difference(sides[first].answers, side.answers) if side.answers else None
        if side.answers and not apart[name] <= SAME:
            said = f"{name} is {apart[name]:.1g} from {first} where {SAME:g} is allowed ({model}, {count} rows, {part})"
            if name != ONNX:
                raise CtrlabError(f"Sides that are compared give the same answers; {said}.")
            side.answers, side.note = [], f"its answers are others, so there is no comparison: {said}"
    blocks = {name: functools.partial(side.block, calls) for name, side in sides.items()}
    for block in blocks.values():  # warm
        block()
    samples = paired(blocks, track(range(rounds), f"CPU per call, {model}, {count} rows, {part}"))
    cpu = {name: tuple(samples[name]) if side.answers else () for name, side in sides.items()}
    return [GraphCost(model, count, part, name, cpu[name], apart[name], side.versions, side.note) for name, side in sides.items()]


def _difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """The largest difference; infinite if shapes differ."""
    if [each.shape for each in ours] != [each.shape for each in theirs]:
        return math.inf
    return max(float(np.max(np.abs(one - other), initial=0.0)) for one, other in zip(ours, theirs))


def _requests(table: pa.Table, schema: Schema, model: CTRModel, count: int) -> _Requests:
    """The same requests as in a load, from text and from ids."""
    text, ids = inputs_of(model, "text"), inputs_of(model, "ids")
    specs = specs_of(text)
    types = {name: DATATYPES[spec.dtype.name] for name, spec in specs.items()}
    made = _Requests([], [])
    for body in requests.bodies(table, schema, types, candidates=(count, count), count=BODIES):
        given = json.loads(body.data)["inputs"]
        features = to_features({name: tf.constant(given[name], spec.dtype) for name, spec in specs.items()}, text)
        features = filled(features, model.input_schema)
        made.texts.append({each.column: features[each.column] for each in text if each.dtype == "string"})
        made.ids.append({name: tensor.numpy() for name, tensor in to_tensors(features, ids, model).items()})
    return made


def _graphs(folder: Path, model: str, given: list[Batch], held: contextlib.ExitStack) -> dict[str, _Side]:
    """The sides that run graphs: TensorFlow's session and our processor."""
    bodies = [predict_request(model, {name: tf.constant(array) for name, array in each.items()}) for each in given]
    ours = {}
    for name in HASHING:
        processor = held.enter_context(Processor(folder / name / model, intra_op_threads=1, poll_seconds=0))
        ours[f"{name}, our processor"] = processor
    session, signature = held.enter_context(opened(folder / "stock" / model / "1", intra_op_threads=1, inter_op_threads=1))
    names = list(given[0])
    options = _options(feed=[signature.inputs[name].name for name in names], fetch=[signature.outputs[OUTPUT].name])
    run = session._make_callable_from_options(options)
    found = {TENSORFLOW: _side(lambda arrays: run(*arrays)[0], [[each[name] for name in names] for each in given])}
    for name, processor in ours.items():
        found[name] = _side(lambda body, to=processor: to.process(body, "predict").data, bodies, _probabilities)
    return found


def _hashing(model: CTRModel, texts: list[Features], held: contextlib.ExitStack) -> _Side:
    """The sides that turn a model's text columns into ids. Variables hold the text. So no call passes it from Python, and
    TensorFlow can't hash it ahead, as it does with constants and with defaults of placeholders.
    """
    with tf.Graph().as_default():
        fetched = []
        for features in texts:
            given = {name: tf.nest.map_structure(_variable, text, expand_composites=True) for name, text in features.items()}
            ids = model.encoder.ids(given, [model.input_schema[name] for name in given])
            flat = tf.nest.flatten(list(ids.values()), expand_composites=True)
            fetched.append(tf.concat([tf.cast(each, tf.int64) for each in flat], 0).name)  # what nobody fetches is dropped
        config = config_pb2.ConfigProto(
            use_per_session_threads=True, intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
        )
        session = held.enter_context(contextlib.closing(tf.compat.v1.Session(config=config)))
        session.run(tf.compat.v1.global_variables_initializer())
        return _side(lambda run: run()[0], [session._make_callable_from_options(_options(fetch=[name])) for name in fetched])


def _variable(text: tf.Tensor) -> tf.Tensor:
    return tf.Variable(text.numpy(), trainable=False, dtype=text.dtype).read_value()


def _options(**named) -> config_pb2.CallableOptions:
    """Options with which a session takes arrays unchanged. `Session.run` inspects each array in Python first, which takes longer
    than the graph of a small request.
    """
    return config_pb2.CallableOptions(run_options=config_pb2.RunOptions(inter_op_thread_pool=CALLERS_THREAD), **named)


def _side(call: Callable, given: Sequence, read: Callable = np.asarray) -> _Side:
    return _Side([read(call(each)) for each in given], lambda calls: cpu_per_call(call, given, calls))


def _probabilities(response: bytes) -> np.ndarray:
    """Reads a PredictResponse, whose field 1 is a map: field 1 is the key, 2 the value."""
    return tf.make_ndarray(tensor_pb2.TensorProto.FromString(wire.fields(wire.fields(response)[1])[2]))


@contextlib.contextmanager
def _converted(
    folder: Path, model: str, asked: Mapping[int, Sequence[Batch]], command: Callable[[Peer], list[str]]
) -> Iterator[dict[int, tuple[_Side, list[int]]]]:
    """Yields {number of candidates: onnxruntime's side, and the requests that it answers}; all requests if it answers none."""
    files = {what: {str(count): str(folder / f"{what}-{count}.npz") for count in asked} for what in ("requests", "answers")}
    for count, given in asked.items():
        cases.save(Path(files["requests"][str(count)]), given)
    with contextlib.ExitStack() as held:
        worker, said, problem = None, {}, ""
        try:
            worker = held.enter_context(Worker(f"{model} with {ONNX}", command(PEER)))
            said = worker.ask("open", version=str(folder / "stock" / model / "1"), **files)
        except CtrlabError as refused:
            problem = str(refused)

        def cpu_per_call(count: int, calls: int) -> float:
            return worker.ask("run", rows=count, calls=calls)["seconds"]

        def side(count: int) -> tuple[_Side, list[int]]:
            answered = said["answered"][str(count)] if said else []
            if not answered:
                return _Side([], note=problem or said["notes"][str(count)]), list(range(len(asked[count])))
            answers = [each[OUTPUT] for each in cases.load(files["answers"][str(count)])]
            run = functools.partial(cpu_per_call, count)
            return _Side(answers, run, said["versions"], said["notes"][str(count)]), answered

        yield {count: side(count) for count in asked}
