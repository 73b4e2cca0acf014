"""The AUC of our models at size "small" beside that of the classic models and of a plain Keras model, on real samples.

All see the same columns of the same rows. The last tenth of the train rows are for choosing: the strength of the regression, and
the epoch at which the others stop. The held-out rows are read once, at the end.
"""

from __future__ import annotations

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
from ctrlab.models import build
from ctrlab.peers import classic, keras_fm
from ctrlab.profiling.progress import track
from ctrlab.training import SHUFFLE_ROWS, EarlyStopping, compile_model, evaluate

VALIDATION = 0.1
EPOCHS = 20
BATCH = 256
CLASSIC = {"logistic regression": classic.logistic, "gradient boosting": classic.boosting}
PLAIN = "plain Keras FM + MLP"


@dataclass(frozen=True)
class Row:
    """The quality of one model on one data set.

    Attributes:
        auc, log_loss: by label, on the held-out rows; one number a seed.
        epochs: of the best epoch, from 1, one a seed; none for the classic models.
    """

    data_set: str
    model: str
    auc: dict[str, list[float]]
    log_loss: dict[str, list[float]]
    epochs: list[int]

    def median(self, label: str) -> float:
        return float(np.median(self.auc[label]))


def compare(data_set: str, models: Sequence[str], seeds: int, source: Literal["generated", "real"] = "real") -> Iterator[Row]:
    """A row a model: the classic ones first, then plain Keras, then ours.

    Raises:
        CtrlabError: there are no real data, or a model can't use this data set.
    """
    files = data.prepare(data_set, source=source)
    train, test = (pa.concat_tables([pq.read_table(path) for path in paths]) for paths in (files.train, files.test))
    fit, validation = train.slice(0, _first(train)), train.slice(_first(train))
    for name, make in CLASSIC.items():
        found = {}
        for label in track([c.name for c in files.schema.labels], f"{name} on {data_set}"):
            model, encode = make(files.schema, label, fit, validation)
            found[label] = classic.quality(classic.labels(test, label), model.predict_proba(encode(test))[:, 1])
        auc, loss = ({label: [q[what]] for label, q in found.items()} for what in ("auc", "log_loss"))
        yield Row(data_set, name, auc, loss, [])
    with TemporaryDirectory() as folder:
        paths = {"fit": Path(folder, "fit.parquet"), "validation": Path(folder, "validation.parquet")}
        for rows, path in zip((fit, validation), paths.values()):
            data.write(rows, files.schema, path, progress=False)
        for name in (PLAIN, *models):
            yield _trained(files, paths, name, seeds)


def _trained(files: data.DataFiles, paths: dict[str, Path], name: str, seeds: int) -> Row:
    auc, loss = ({label.name: [] for label in files.schema.labels} for _ in range(2))
    epochs = []
    for seed in track(range(1, seeds + 1), f"{name} on {files.name}"):
        model = _plain(files, seed) if name == PLAIN else compile_model(build(name, files.schema, "all", seed, size="small"))
        size = BATCH if name == PLAIN else model.hyper.batch_size
        stopping = EarlyStopping(data.read(paths["validation"], files.schema, batch_size=size))
        batches = data.read(paths["fit"], files.schema, batch_size=size, shuffle=10 * SHUFFLE_ROWS, seed=seed)
        model.fit(batches, epochs=EPOCHS, callbacks=[stopping], verbose=0)
        found = evaluate(model, files.read_test(size))
        for label in auc:
            auc[label].append(found.auc[label])
            loss[label].append(found.log_loss[label])
        epochs.append(stopping.best + 1)
    return Row(files.name, name, auc, loss, epochs)


def _plain(files: data.DataFiles, seed: int) -> keras.Model:
    model = keras_fm.PlainFM(files.schema, seed)
    model.compile(keras.optimizers.Adam(keras_fm.RATE), keras.losses.BinaryCrossentropy(from_logits=True))
    return model


def _first(train: pa.Table) -> int:
    return round(len(train) * (1 - VALIDATION))
