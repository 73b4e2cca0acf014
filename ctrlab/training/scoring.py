"""Probabilities for the rows of a table in memory, without files."""

from __future__ import annotations

import dataclasses

import numpy as np

from ctrlab.data import explained
from ctrlab.data.tables import conform
from ctrlab.data.tensors import features_of
from ctrlab.embedding.options import require_whole
from ctrlab.errors import BadData, CtrlabError
from ctrlab.models.base import CTRModel
from ctrlab.ops.refusals import one_sentence
from ctrlab.schema import frames
from ctrlab.training.step import kept_predict_step


def score(model, table, batch_size: int | None = None) -> np.ndarray:
    """The model's probability for each row and task, in the order of the rows: float32 [n, K].

    The results equal those for the same rows in a file. If a model's `rows_apart` is false, as WDL's at the contest's sizes, the
    answer for a row depends on its batch. Then the batch size matters. The first call traces the model, for any number of rows;
    later calls run what it traced.

    Args:
        table: as in `ctrlab.data.table`: a pandas DataFrame, an Arrow table, a path of a Parquet file or of a CSV with header. It
            must have the model's columns; a label is not needed. Other columns are left out.
        batch_size: number of rows that are computed at once, a whole number of at least 1; default: the model's own, as in
            training. So scoring needs no more memory than training: without rung `indicator` a row of DeepFM makes a megabyte.
    Raises:
        BadData: a column is missing or of another kind, or has a value that is not allowed in files either (see
            `ctrlab.data.write`); a probability is not finite. CtrlabError: the batch size is invalid, the model is not one of the
            six, or an embedding variable refused a lookup.

    >>> score(model, pandas.read_csv("today.csv"))     # doctest: +SKIP
    array([[0.0271], [0.1189]], dtype=float32)
    """
    if batch_size is not None:
        require_whole("`batch_size`", batch_size, 1, 31)
    if not isinstance(model, CTRModel):
        raise CtrlabError(
            f"`score` reads a table by the schema of one of the six models of `ctrlab.build`; received {type(model).__name__}, "
            "which has none: call its `predict`."
        )
    columns = tuple(model.input_schema[name] for name in model.input_signature())
    schema = dataclasses.replace(model.input_schema, columns=columns, wide=(), user="")
    rows = conform(frames.table(table, schema), schema, frames.named(table, "The table to score"))
    predict, size = kept_predict_step(model), batch_size or model.hyper.batch_size
    found = [np.zeros((0, len(model.tasks)), np.float32)]
    with explained(), one_sentence():
        for start in range(0, len(rows), size):
            found.append(predict(features_of(rows.slice(start, size), schema)).numpy())
    p = np.concatenate(found)
    if not np.all(np.isfinite(p)):
        raise BadData(f"Probabilities must be finite; {model.name} gave some that are not. Lower the learning rate.")
    return p
