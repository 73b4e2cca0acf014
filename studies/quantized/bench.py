"""Measures models whose rows are served in fewer bits: the cost of each rung in AUC and calibration, and its savings in bytes and
CPU time.

    float32      rows as they were trained
    bf16_rows    rows in bfloat16
    int8_rows    rows in 8 bits, with a scale each

These are exports of one trained model, with all rungs that don't change results. On generated rows it has the contest's sizes and
is trained once over them; on real ones it is of size "small", and trained until the quality on held-out rows no longer improves.

AUC and calibration are those of the exports' answers to the held-out rows, over slices: slice i of all rungs has the same rows.
The CPU time of a request is that of `Processor.process` in this process, with one thread. Besides, the model's own tables are
rounded to fewer and fewer bits, with a scale per row, until the AUC falls.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.parquet as pq
from ctrlab.lessons.topics.quantize import quantizable
from ctrlab.lessons.topics.quantize.quantizable import Quantizable, per_slice, weights_bytes

from ctrlab import data, profiles
from ctrlab.data import DataFiles
from ctrlab.load import requests
from ctrlab.load.requests import Body
from ctrlab.models import build
from ctrlab.models.base import CTRModel
from ctrlab.plain import Plain
from ctrlab.profiling.progress import track
from ctrlab.profiling.timing import Interval, paired
from ctrlab.server.described import DATATYPES
from ctrlab.serving import export_model
from ctrlab.serving.graph import answers
from ctrlab.serving.inputs import inputs_of, specs_of, to_tensors
from ctrlab.serving.processor import Processor
from ctrlab.serving.rows import rounded
from ctrlab.training import compile_model
from ctrlab.training.held_out import hold_out
from ctrlab.training.metrics import auc, calibration
from studies.peers.session import cpu_per_call
from studies.quality import bench as quality

Source = Literal["generated", "real"]
EXACT = "float32"
RUNGS = (EXACT, "bf16_rows", "int8_rows")
BITS = (8, 7, 6, 5, 4, 3, 2)
FALL = 1e-3
"""A fall of the AUC by this much means that the bits are too few."""
CANDIDATES, BODIES, CALLS = 200, 16, 100


@dataclass(frozen=True)
class Rung(Plain):
    """A model's export with a rung.

    Attributes:
        auc, calibration: {task: one number per slice}.
        largest: the largest difference of an answer from float32's.
        weights_bytes: bytes of its tables and dense weights. total_bytes: bytes of the whole version.
        cpu: CPU seconds per request of `CANDIDATES`, one number per round; number i of all rungs comes from round i.
    """

    auc: dict[str, list[float]]
    calibration: dict[str, list[float]]
    largest: float
    weights_bytes: int
    total_bytes: int
    cpu: list[float]


@dataclass(frozen=True)
class QuantizedModel(Plain):
    """A model's rungs.

    Attributes:
        source: source of the rows. rows: number of held-out rows.
        auc: {task: AUC on all held-out rows in float32}.
        bits: numbers of bits. auc_of_bits: {task: the AUC with tables of each number of bits}.
    """

    model: str
    data_set: str
    source: Source
    rows: int
    rungs: dict[str, Rung]
    auc: dict[str, float]
    bits: list[int]
    auc_of_bits: dict[str, list[float]]

    def apart(self, metric: Literal["auc", "calibration"], rung: str, task: str) -> Interval:
        """The metric's difference from float32's."""
        ours, exact = (getattr(self.rungs[name], metric)[task] for name in (rung, EXACT))
        return Interval.of([one - other for one, other in zip(ours, exact)])

    def less_cpu(self, rung: str) -> Interval:
        """CPU time in float32, divided by that of a rung."""
        return Interval.of([exact / ours for exact, ours in zip(self.rungs[EXACT].cpu, self.rungs[rung].cpu)])

    def falls_at(self, task: str) -> int | None:
        """The largest number of bits whose AUC is lower by `FALL` or more; None: there is none."""
        fallen = [n for n, area in zip(self.bits, self.auc_of_bits[task]) if area <= self.auc[task] - FALL]
        return max(fallen, default=None)


def bench_quantized(model: str, data_set: str, source: Source = "generated", profile: str | None = None) -> QuantizedModel:
    """Measures the rungs of one model.

    Args:
        data_set: the data set of real rows; generated rows come from the model's own set.
    Raises:
        CtrlabError: there are no real rows, or the model can't use their data set.
    """
    size = profiles.current(profile)
    trained, files = _generated(model, size) if source == "generated" else _real(model, data_set)
    tasks = trained.model.tasks
    with tempfile.TemporaryDirectory(prefix="ctrlab-quantized-") as folder:
        versions = {
            rung: export_model(
                trained.model, Path(folder, rung), rows=[trained.rows(4)], optimizations="none" if rung == EXACT else rung
            )
            for rung in track(RUNGS, f"Exporting {model}")
        }
        scores = {rung: _answers(trained, version) for rung, version in track(list(versions.items()), f"AUC of {model}")}
        cpu = _cpu(versions, _bodies(trained.model, files), size)
        rungs = {
            rung: Rung(
                _per_task(auc, scores[rung], trained.labels, tasks),
                _per_task(calibration, scores[rung], trained.labels, tasks),
                float(abs(scores[rung] - scores[EXACT]).max()),
                weights_bytes(version),
                sum(path.stat().st_size for path in version.rglob("*") if path.is_file()),
                cpu[rung],
            )
            for rung, version in versions.items()
        }
    exact = _areas(scores[EXACT], trained.labels, tasks)
    curve: dict[str, list[float]] = {task: [] for task in tasks}
    for bits in track(BITS, f"Bits of {model}"):
        with trained.changed(lambda name, rows, bits=bits: rounded(rows, bits)):
            for task, area in _areas(trained.scores(), trained.labels, tasks).items():
                curve[task].append(area)
    return QuantizedModel(model, files.name, source, len(trained.labels), rungs, exact, list(BITS), curve)


def _generated(name: str, profile: profiles.Profile) -> tuple[Quantizable, DataFiles]:
    model, files = quantizable.made(name, profile)
    quantizable.train_once(model, files)
    return Quantizable(model, files), files


def _real(name: str, data_set: str) -> tuple[Quantizable, DataFiles]:
    files = data.prepare(data_set, source="real")
    model = compile_model(build(name, files.schema, "all", size="small"))
    with tempfile.TemporaryDirectory() as folder:
        fit, validation = hold_out(files, quality.VALIDATION, Path(folder))
        quality.fit(model, fit, validation, model.hyper.batch_size, seed=1)
    return Quantizable(model, files), files


def _answers(trained: Quantizable, version: Path) -> np.ndarray:
    """A version's probabilities for the held-out rows, [n, K]."""
    columns = inputs_of(trained.model, "text")
    return np.concatenate(list(answers(version, (to_tensors(batch, columns, trained.model) for batch in trained.features))))


def _per_task(metric: quantizable.Metric, scores: np.ndarray, labels: np.ndarray, tasks: Sequence[str]) -> dict:
    return {task: per_slice(metric, scores[:, k], labels[:, k]) for k, task in enumerate(tasks)}


def _areas(scores: np.ndarray, labels: np.ndarray, tasks: Sequence[str]) -> dict[str, float]:
    return {task: auc(scores[:, k], labels[:, k]) for k, task in enumerate(tasks)}


def _bodies(model: CTRModel, files: DataFiles) -> list[Body]:
    inputs = {name: DATATYPES[spec.dtype.name] for name, spec in specs_of(inputs_of(model, "text")).items()}
    drawn = {"candidates": (CANDIDATES, CANDIDATES), "count": BODIES, "format": "binary"}
    return requests.bodies(pq.read_table(files.test[0]), files.schema, inputs, **drawn)


def _cpu(versions: Mapping[str, Path], bodies: Sequence[Body], size: profiles.Profile) -> dict[str, list[float]]:
    """Seconds per request of each rung, in pairs."""
    calls = 5 if size.name == "tiny" else CALLS

    def block(processor: Processor) -> float:
        return cpu_per_call(lambda body: processor.process(body.data, "infer_json", body.header), bodies, calls)

    with contextlib.ExitStack() as held:
        sides = {}
        for rung, version in versions.items():
            processor = held.enter_context(Processor(version.parent, intra_op_threads=1, poll_seconds=0))
            sides[rung] = lambda processor=processor: block(processor)
        return paired(sides, track(range(size.repetitions), "CPU per request"))
