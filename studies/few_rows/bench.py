"""The AUC of our models on few rows of a real sample, beside logistic regression and gradient boosting on the same rows.

A sample is cut into splits, up to five, in the order of its rows, which is that of time where it was kept. The rows of a census
are shuffled first. Each split has, one after the other,

    training rows      the last tenth of them ends the training, and sets the regression's strength
    validation rows    a preset is chosen on these
    test rows          it is judged on these, once
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ctrlab import data
from ctrlab.data.splits import held_out_rows
from ctrlab.models import MODELS, build
from ctrlab.plain import Plain
from ctrlab.profiling.progress import track
from ctrlab.training import EarlyStopping, evaluate, get_state, make_optimizer, set_state, train, train_step
from studies.quality import classic
from studies.quality.bench import CLASSIC, VALIDATION

SPLITS = 5
SCORED = 6_000
"""The validation rows of a split, and its test rows."""
EPOCHS = 20
SHUFFLED = ("census_income",)
"""Samples whose order means nothing."""
REGRESSION = "logistic regression"
On = Literal["validation", "test"]


@dataclass(frozen=True)
class FewRows(Plain):
    """The AUC of one model on one data set.

    Attributes:
        rows: number of training rows of a split, with those that end the training.
        size: the preset; "" for the classic models. auc: {label: one number per split}.
    """

    data_set: str
    rows: int
    model: str
    size: str
    auc: dict[str, list[float]]


@dataclass(frozen=True)
class Split:
    """One split; each part is a table of a sample's columns."""

    fit: pa.Table
    stop: pa.Table
    scored: pa.Table


def compare(
    data_set: str, rows: int, models: Sequence[str], sizes: Sequence[str], on: On, source: Literal["generated", "real"] = "real"
) -> Iterator[FewRows]:
    """The classic models first, then each of ours at each of the sizes that it has.

    Raises:
        CtrlabError: there are no real data, or a model can't use this data set.
    """
    files = data.prepare(data_set, source=source)
    found = splits(files, rows, on)
    labels = [label.name for label in files.schema.labels]
    for name, make in CLASSIC.items():
        auc = {label: [] for label in labels}
        for split in track(found, f"{name} on {data_set}"):
            for label in labels:
                model, encode = make(files.schema, label, split.fit, split.stop)
                p = model.predict_proba(encode(split.scored))[:, 1]
                auc[label].append(classic.quality(classic.labels(split.scored, label), p)["auc"])
        yield FewRows(data_set, rows, name, "", auc)
    for name in models:
        for size in (size for size in sizes if size in MODELS[name].presets):
            yield FewRows(data_set, rows, name, size, _trained(files, found, name, size))


def splits(files: data.DataFiles, rows: int, on: On) -> list[Split]:
    """The splits of a sample, as many as it has rows for, at most `SPLITS`."""
    whole = pa.concat_tables([pq.read_table(path) for path in (*files.train, *files.test)]).unify_dictionaries()
    if files.name in SHUFFLED:
        whole = whole.take(np.random.default_rng(0).permutation(len(whole)))
    count = max(1, min(SPLITS, len(whole) // (rows + 2 * SCORED)))
    span, last = len(whole) // count, held_out_rows(rows, VALIDATION, files.name)
    scored = min(SCORED, (span - rows) // 2)
    after = rows if on == "validation" else rows + scored
    return [
        Split(part.slice(0, rows - last), part.slice(rows - last, last), part.slice(after, scored))
        for part in (whole.slice(i * span, span) for i in range(count))
    ]


def _trained(files: data.DataFiles, found: Sequence[Split], name: str, size: str) -> dict[str, list[float]]:
    """The AUC of a model by label, trained on each split from the same initial weights."""
    model = build(name, files.schema, "all", size=size)
    optimizer = make_optimizer(model)
    step, start, batch = train_step(model, optimizer), get_state(model, optimizer), model.hyper.batch_size
    auc = {label: [] for label in model.tasks}
    with TemporaryDirectory() as folder:
        for number, split in enumerate(track(found, f"{name}, {size}, on {files.name}")):
            paths = {part: Path(folder, f"{number} {part}.parquet") for part in ("fit", "stop", "scored")}
            for part, path in paths.items():
                pq.write_table(getattr(split, part), path)
            set_state(start, model, optimizer)
            stopping = EarlyStopping(data.read(paths["stop"], files.schema, batch_size=1_024))
            stopping.begin(model, optimizer)
            batches = data.read(paths["fit"], files.schema, batch_size=batch, shuffle=len(split.fit), seed=1)
            for _ in range(EPOCHS):
                train(model, optimizer, batches, step=step)
                if stopping.look():
                    break
            stopping.restore()
            scored = evaluate(model, data.read(paths["scored"], files.schema, batch_size=1_024))
            for label, value in scored.auc.items():
                auc[label].append(value)
    return auc
