"""The AUC of our models at size "small" beside that of the classic models and of a plain Keras model, on real samples.

All see the same columns of the same rows. The last tenth of the train rows serves for choices: the strength of the regression,
and the epoch at which the others stop. The held-out rows are read once, at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ctrlab import data
from ctrlab.errors import CtrlabError
from ctrlab.models import MODELS, build
from ctrlab.profiling.progress import track
from ctrlab.training import SHUFFLE_ROWS, EarlyStopping, compile_model, evaluate
from ctrlab.training.held_out import hold_out
from studies.quality import classic, keras_fm

VALIDATION = 0.1
EPOCHS = 10
BATCH = 256
CLASSIC = {"logistic regression": classic.logistic, "gradient boosting": classic.boosting}
PLAIN = "plain Keras FM + MLP"


@dataclass(frozen=True)
class ModelQuality:
    """The quality of one model on one data set.

    Attributes:
        auc, log_loss: by label, on the held-out rows; one number per seed.
        epochs: number of the best epoch, from 1, one per seed; empty for the classic models.
    """

    data_set: str
    model: str
    auc: dict[str, list[float]]
    log_loss: dict[str, list[float]]
    epochs: list[int]

    def median(self, label: str) -> float:
        return float(np.median(self.auc[label]))


def compare(
    data_set: str, models: Sequence[str] | None = None, seeds: int = 3, source: Literal["generated", "real"] = "real"
) -> Iterator[ModelQuality]:
    """One row per model: the classic ones first, then plain Keras, then ours.

    Args:
        models: None: all that can use the data set.
    Raises:
        CtrlabError: there are no real data, or a named model can't use this data set.
    """
    files = data.prepare(data_set, source=source)
    chosen = _usable(files) if models is None else models
    with TemporaryDirectory() as folder:
        fit, validation = hold_out(files, VALIDATION, Path(folder))
        yield from _classic(fit, validation)
        for name in (PLAIN, *chosen):
            yield _trained(fit, validation, name, seeds)


def _usable(files: data.DataFiles) -> list[str]:
    found = []
    for name in MODELS:
        with contextlib.suppress(CtrlabError):
            build(name, files.schema.with_buckets(1), size="small")
            found.append(name)
    return found


def _classic(files: data.DataFiles, validation: Path) -> Iterator[ModelQuality]:
    fit, test = (pa.concat_tables([pq.read_table(path) for path in paths]) for paths in (files.train, files.test))
    for name, make in CLASSIC.items():
        found = {}
        for label in track([c.name for c in files.schema.labels], f"{name} on {files.name}"):
            model, encode = make(files.schema, label, fit, pq.read_table(validation))
            found[label] = classic.quality(classic.labels(test, label), model.predict_proba(encode(test))[:, 1])
        auc, loss = ({label: [q[what]] for label, q in found.items()} for what in ("auc", "log_loss"))
        yield ModelQuality(files.name, name, auc, loss, [])


def _trained(files: data.DataFiles, validation: Path, name: str, seeds: int) -> ModelQuality:
    auc, loss = ({label.name: [] for label in files.schema.labels} for _ in range(2))
    epochs = []
    for seed in track(range(1, seeds + 1), f"{name} on {files.name}"):
        model = _plain(files, seed) if name == PLAIN else compile_model(build(name, files.schema, "all", seed, size="small"))
        size = BATCH if name == PLAIN else model.hyper.batch_size
        epochs.append(fit(model, files, validation, size, seed))
        found = evaluate(model, files.read_test(size))
        for label in auc:
            auc[label].append(found.auc[label])
            loss[label].append(found.log_loss[label])
    return ModelQuality(files.name, name, auc, loss, epochs)


def fit(model: keras.Model, files: data.DataFiles, validation: Path, size: int, seed: int) -> int:
    """Trains a compiled model until the quality on validation rows no longer improves; restores the best epoch. Returns its
    number, from 1.
    """
    stopping = EarlyStopping(data.read(validation, files.schema, batch_size=size))
    batches = files.read_train(size, shuffle=10 * SHUFFLE_ROWS, seed=seed)
    model.fit(batches, epochs=EPOCHS, callbacks=[stopping], verbose=0)
    return stopping.best + 1


def _plain(files: data.DataFiles, seed: int) -> keras.Model:
    model = keras_fm.PlainFM(files.schema, seed)
    model.compile(keras.optimizers.Adam(keras_fm.RATE), keras.losses.BinaryCrossentropy(from_logits=True))
    return model
