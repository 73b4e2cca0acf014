"""A trained model whose tables are served in fewer bits: the cost in AUC, calibration and answers. For lessons."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
from ctrlab.lessons.topics.quantize import quantizable
from ctrlab.lessons.topics.quantize.quantizable import Change, Cost

from ctrlab import serving
from ctrlab.profiles import Profile
from ctrlab.server.exported import json_request
from ctrlab.serving import rows as formats
from ctrlab.serving import weights
from ctrlab.serving.processor import Processor
from ctrlab.training.metrics import auc

LINE = 64  # bytes of a cache line
weights_bytes = quantizable.weights_bytes


def unchanged(rows: np.ndarray) -> np.ndarray:
    return rows


class Trained(quantizable.Quantizable):
    """A model of one task after one pass over the rows of its data set.

    Args:
        name: the model's name.
    Attributes:
        labels: labels of the held-out rows, [n].
    """

    def __init__(self, name: str, profile: Profile):
        model, files = quantizable.made(name, profile)
        drawn = {name: table.numpy() for name, table in quantizable.packable(model).items()}
        quantizable.train_once(model, files)
        super().__init__(model, files)
        self.labels = self.labels[:, 0]
        self._unread = {name: np.flatnonzero((values == drawn[name]).all(axis=1)) for name, values in self.tables.items()}

    def scores(self, change: Change = unchanged, outlier: float = 0) -> np.ndarray:
        """The probabilities of the held-out rows [n], each table's rows replaced by `change` of them.

        Args:
            outlier: before that, one number in each table is multiplied to this multiple of the table's largest.
        """
        with self.changed(lambda name, rows: change(self.with_outlier(name, outlier))):
            return super().scores()[:, 0]

    def with_outlier(self, name: str, times: float) -> np.ndarray:
        """The table, or a copy with an outlier in a row that no training example read; a table without such a row has none."""
        values, rows = self.tables[name], self._unread[name]
        if times and len(rows):
            values = values.copy()
            values[rows[-1], 0] = times * abs(values).max()
        return values

    def auc(self, change: Change = unchanged, outlier: float = 0) -> float:
        """The AUC of `scores`."""
        return auc(self.scores(change, outlier), self.labels)

    def cost(self, change: Change) -> Cost:
        """The cost of a change of the tables, on the held-out rows."""
        return Cost.of(self.scores(), self.scores(change), self.labels)

    def request(self, count: int) -> bytes:
        """This number of held-out rows as a request, in JSON."""
        return json_request(self.rows(count), self.model)

    def export(self, folder: Path, rung: str = "none", pack: Callable | None = None) -> Path:
        """Exports the model; returns the version's folder.

        Args:
            rung: a rung of level "serving".
            pack: packs the rows in place of `ctrlab.serving.rows.pack`.
        """
        with _packed_by(pack):
            return serving.export_model(self.model, folder, rows=[self.rows(4)], optimizations=rung)


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


def same_rows(pack: Callable, tables: Mapping[str, np.ndarray]) -> float:
    """The fraction of words of packed rows, in both formats, that equal those of `ctrlab.serving.rows.pack`."""
    pairs = [(pack(rows, f), formats.pack(rows, f)) for rows in tables.values() for f in ("bf16", "int8")]
    return float(np.mean(np.concatenate([(mine.view(np.uint32) == ours.view(np.uint32)).ravel() for mine, ours in pairs])))


def answers(processor: Processor, request: bytes) -> np.ndarray:
    """The probabilities in the answer to a request in JSON."""
    return np.array(json.loads(processor.process(request, "json").data)["outputs"])


def row_bytes(format: formats.Format, dim: int) -> int:
    return 4 * formats.words(format, dim)


def lines(bytes_a_row: int) -> float:
    """The average number of cache lines per row, in a table that begins at a cache line."""
    starts = np.arange(LINE) * bytes_a_row % LINE
    return float(np.mean(-(-(starts + bytes_a_row) // LINE)))
