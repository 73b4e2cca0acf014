"""A trained model whose tables are served in fewer bits: what it costs in AUC, calibration and answers. For lessons."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ctrlab
from ctrlab import data, serving
from ctrlab.lessons.live_serving import json_request
from ctrlab.model_names import DATA_SETS
from ctrlab.profiles import Profile
from ctrlab.profiling.timing import Interval
from ctrlab.serving import rows as formats
from ctrlab.serving import weights
from ctrlab.serving.bundled import Bundled
from ctrlab.serving.inputs import inputs_of
from ctrlab.serving.processor import Processor
from ctrlab.training import make_optimizer, predict_step, train
from ctrlab.training.metrics import auc, calibration

RATE = 1e-2
"""The learning rate. One pass at DeepFM's own, .001, leaves its tables nearly as they were drawn: nothing could be lost."""
SLICES = 16
TINY_BUCKETS = 2_000
BATCH = 512
LINE = 64  # bytes of a cache line
Change = Callable[[np.ndarray], np.ndarray]


def unchanged(rows: np.ndarray) -> np.ndarray:
    return rows


class Trained:
    """A model after one pass over the rows of its data set.

    Args:
        name: of the model.
    Attributes:
        model: it, with all rungs. labels: of the held-out rows, [n].
        tables: {name: float32 [rows, D]}, those whose rows can be packed: more than one number each.
    """

    def __init__(self, name: str, profile: Profile):
        files = data.prepare(DATA_SETS[name], profile=profile)
        schema = files.schema.with_buckets(TINY_BUCKETS) if profile.name == "tiny" else None
        self.model = ctrlab.build(name, schema, optimizations="all")
        drawn = {table.name: table.numpy() for table in self._packable()}
        batches = files.read_train(batch_size=BATCH, shuffle=10_000, seed=1, lists="ragged")
        train(self.model, make_optimizer(self.model, dataclasses.replace(self.model.hyper, learning_rate=RATE)), batches)
        held_out = list(files.read_test(batch_size=4 * BATCH, lists="ragged"))
        self._features = [features for features, _ in held_out]
        self.labels = np.concatenate([np.asarray(labels)[:, 0] for _, labels in held_out])
        self._predict = predict_step(self.model)
        self._variables = {table.name: table for table in self._packable()}
        self.tables = {name: table.numpy() for name, table in self._variables.items()}
        self._unread = {name: np.flatnonzero((values == drawn[name]).all(axis=1)) for name, values in self.tables.items()}

    def _packable(self) -> list:
        return [table for table in Bundled(self.model, inputs_of(self.model, "text")).tables if table.shape[1] > 1]

    def scores(self, change: Change = unchanged, outlier: float = 0) -> np.ndarray:
        """The probabilities of the held-out rows [n], each table's rows replaced by `change` of them.

        Args:
            outlier: before that, one number of a row of each table is so many times as large as the table's largest.
        """
        with self.changed(change, outlier):
            return np.concatenate([self._predict(features).numpy()[:, 0] for features in self._features])

    @contextlib.contextmanager
    def changed(self, change: Change, outlier: float = 0) -> Iterator[None]:
        """The model has these tables while the block runs."""
        try:
            for name, table in self._variables.items():
                table.assign(change(self.with_outlier(name, outlier)))
            yield
        finally:
            for name, table in self._variables.items():
                table.assign(self.tables[name])

    def with_outlier(self, name: str, times: float) -> np.ndarray:
        """The table, or a copy with an outlier in a row that no training example read; a table without such a row has none."""
        values, rows = self.tables[name], self._unread[name]
        if times and len(rows):
            values = values.copy()
            values[rows[-1], 0] = times * abs(values).max()
        return values

    def auc(self, change: Change = unchanged, outlier: float = 0) -> float:
        """Of `scores`."""
        return auc(self.scores(change, outlier), self.labels)

    def cost(self, change: Change) -> Cost:
        """What the held-out rows see of it."""
        return Cost.of(self.scores(), self.scores(change), self.labels)

    def rows(self, count: int) -> dict:
        """Features of so many held-out rows."""
        return {column: values[:count] for column, values in self._features[0].items()}

    def request(self, count: int) -> bytes:
        """The same as a request, in JSON."""
        return json_request(self.rows(count), self.model)

    def export(self, folder: Path, rung: str = "none", pack: Callable | None = None) -> Path:
        """Exports the model; returns the version's folder.

        Args:
            rung: of level "serving".
            pack: packs the rows in place of `ctrlab.serving.rows.pack`.
        """
        with _packed_by(pack):
            return serving.export_model(self.model, folder, rows=[self.rows(4)], optimizations=rung)


@dataclass(frozen=True)
class Cost:
    """How far scores are from those in float32; intervals over slices of the held-out rows, the same slices on both sides.

    Attributes:
        auc: its difference. calibration: its difference, where calibration is predicted over observed clicks.
        largest: the largest difference of a probability.
    """

    auc: Interval
    calibration: Interval
    largest: float

    @classmethod
    def of(cls, before: np.ndarray, after: np.ndarray, labels: np.ndarray) -> Cost:
        """Of probabilities [n] in float32 and in fewer bits, and labels [n]."""
        parts = [part for part in np.array_split(np.arange(len(labels)), SLICES) if 0 < labels[part].sum() < len(part)]

        def apart(metric: Callable) -> Interval:
            return Interval.of([metric(after[part], labels[part]) - metric(before[part], labels[part]) for part in parts])

        return cls(apart(auc), apart(calibration), float(abs(after - before).max()))

    def __str__(self) -> str:
        areas, ratio = (f"{i.median:+.5f} [{i.low:+.5f}, {i.high:+.5f}]" for i in (self.auc, self.calibration))
        return f"AUC {areas}   calibration {ratio}   answers differ by {self.largest:.5f} at most"


@contextlib.contextmanager
def _packed_by(pack: Callable | None) -> Iterator[None]:
    ours = weights.pack
    weights.pack = pack or ours
    try:
        yield
    finally:
        weights.pack = ours


def packer(quantize: Callable, bfloat16: Callable) -> Callable:
    """A learner's two answers as a function like `ctrlab.serving.rows.pack`."""

    def pack(values: np.ndarray, format: formats.Format) -> np.ndarray:
        if format == "float32":
            return formats.pack(values, format)
        packed = np.zeros((len(values), 4 * formats.words(format, values.shape[1])), np.uint8)
        if format == "bf16":
            fields = [bfloat16(values).astype("<u2")]
        else:
            q, scales = quantize(values, 8)
            fields = [scales.astype("<f4")[:, None], q]
        raw = np.concatenate([np.ascontiguousarray(field).view(np.uint8) for field in fields], axis=1)
        packed[:, : raw.shape[1]] = raw
        return packed.view(np.float32)

    return pack


def weights_bytes(version: Path) -> int:
    return (version / "assets/weights").stat().st_size


def same_rows(pack: Callable, tables: Mapping[str, np.ndarray]) -> float:
    """The share of words of packed rows, in both formats, that are as `ctrlab.serving.rows.pack` has them."""
    pairs = [(pack(rows, f), formats.pack(rows, f)) for rows in tables.values() for f in ("bf16", "int8")]
    return float(np.mean(np.concatenate([(mine.view(np.uint32) == ours.view(np.uint32)).ravel() for mine, ours in pairs])))


def answers(processor: Processor, request: bytes) -> np.ndarray:
    """The probabilities that a request in JSON is answered with."""
    return np.array(json.loads(processor.process(request, "json").data)["outputs"])


def row_bytes(format: formats.Format, dim: int) -> int:
    return 4 * formats.words(format, dim)


def lines(bytes_a_row: int) -> float:
    """The cache lines that a row lies on, on average, in a table that begins with a line."""
    starts = np.arange(LINE) * bytes_a_row % LINE
    return float(np.mean(-(-(starts + bytes_a_row) // LINE)))
