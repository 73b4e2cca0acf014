"""Measures the cost of tables with fewer bits: the AUC and calibration of trained models on held-out rows."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from ctrlab import data
from ctrlab.data import DataFiles
from ctrlab.model_names import DATA_SETS
from ctrlab.models import build
from ctrlab.models.base import CTRModel
from ctrlab.profiles import Profile
from ctrlab.profiling.timing import Interval
from ctrlab.serving.bundled import FORMATS, WEIGHTS, Bundled
from ctrlab.serving.inputs import inputs_of
from ctrlab.training import make_optimizer, predict_step, train
from ctrlab.training.metrics import auc, calibration

RATE = 1e-2
"""The learning rate. After one pass at 0.001, the rate of most models, tables are nearly as they were drawn, so nothing could
be lost.
"""
SLICES = 16
TINY_BUCKETS = 2_000
BATCH = 512
Change = Callable[[np.ndarray], np.ndarray]
"""A function that changes a table's rows, [rows, D] -> [rows, D]."""
Metric = Callable[[np.ndarray, np.ndarray], float]
"""A function of probabilities and labels, [n] each."""


def made(name: str, profile: Profile) -> tuple[CTRModel, DataFiles]:
    """A model with all rungs and fresh weights, and the files of its data set. With the profile `tiny` its tables are small."""
    files = data.prepare(DATA_SETS[name], profile=profile)
    schema = files.schema.with_buckets(TINY_BUCKETS) if profile.name == "tiny" else None
    return build(name, schema, optimizations="all"), files


def train_once(model: CTRModel, files: DataFiles) -> None:
    """Trains on one pass over the rows."""
    batches = files.read_train(batch_size=BATCH, shuffle=10_000, seed=1, lists="ragged")
    train(model, make_optimizer(model, dataclasses.replace(model.hyper, learning_rate=RATE)), batches)


def packable(model: CTRModel) -> dict[str, keras.Variable]:
    """The tables whose rows the rungs of level "serving" pack, by name."""
    bundled = Bundled(model, inputs_of(model, "text"), optimizations=next(iter(FORMATS)))
    return {table.name: table for table, format in zip(bundled.tables, bundled.formats) if format != "float32"}


class Quantizable:
    """A trained model whose tables can be changed temporarily.

    Attributes:
        features: features of the held-out rows, in batches. labels: labels of all held-out rows, [n, K].
        tables: {name: float32 [rows, D]}, the tables that can be packed.
    """

    def __init__(self, model: CTRModel, files: DataFiles):
        self.model = model
        held_out = list(files.read_test(batch_size=4 * BATCH, lists="ragged"))
        self.features = [features for features, _ in held_out]
        self.labels = np.concatenate([np.asarray(labels) for _, labels in held_out])
        self._predict = predict_step(model)
        self._variables = packable(model)
        self.tables = {name: table.numpy() for name, table in self._variables.items()}

    def scores(self) -> np.ndarray:
        """The probabilities of the held-out rows, [n, K]."""
        return np.concatenate([self._predict(features).numpy() for features in self.features])

    @contextlib.contextmanager
    def changed(self, change: Callable[[str, np.ndarray], np.ndarray]) -> Iterator[None]:
        """A context in which each table of the model holds `change(name, rows)` instead of its rows."""
        try:
            for name, table in self._variables.items():
                table.assign(change(name, self.tables[name]))
            yield
        finally:
            for name, table in self._variables.items():
                table.assign(self.tables[name])

    def rows(self, count: int) -> dict:
        """The features of this number of held-out rows."""
        return {column: values[:count] for column, values in self.features[0].items()}


def weights_bytes(version: Path) -> int:
    """The size of a version's tables and dense weights, in bytes."""
    return (version / "assets" / WEIGHTS).stat().st_size


def per_slice(metric: Metric, scores: np.ndarray, labels: np.ndarray) -> list[float]:
    """The metric of each slice of the rows, in their order; slices with labels of one class are left out."""
    parts = np.array_split(np.arange(len(labels)), SLICES)
    return [metric(scores[part], labels[part]) for part in parts if 0 < labels[part].sum() < len(part)]


@dataclass(frozen=True)
class Cost:
    """The difference between scores and those in float32; intervals over slices of the held-out rows, the same slices on both
    sides.

    Attributes:
        auc: difference of the AUC. calibration: difference of the calibration, which is predicted over observed clicks.
        largest: the largest difference of a probability.
    """

    auc: Interval
    calibration: Interval
    largest: float

    @classmethod
    def of(cls, before: np.ndarray, after: np.ndarray, labels: np.ndarray) -> Cost:
        """Computes the cost from probabilities in float32 and in fewer bits, and labels; [n] each."""

        def apart(metric: Metric) -> Interval:
            pairs = zip(per_slice(metric, after, labels), per_slice(metric, before, labels))
            return Interval.of([ours - exact for ours, exact in pairs])

        return cls(apart(auc), apart(calibration), float(abs(after - before).max()))

    def __str__(self) -> str:
        areas, ratio = (f"{i.median:+.5f} [{i.low:+.5f}, {i.high:+.5f}]" for i in (self.auc, self.calibration))
        return f"AUC {areas}   calibration {ratio}   answers differ by {self.largest:.5f} at most"
