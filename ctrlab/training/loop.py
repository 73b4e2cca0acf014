"""Training and evaluation with one explicit step, and the same model made ready for Keras's `fit`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import keras
import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from ctrlab.errors import BadData
from ctrlab.ops.refusals import one_sentence
from ctrlab.training.optimizers import make_optimizer
from ctrlab.training.step import predict_step, train_step

SHUFFLE_ROWS = 20_000
"""Rows of the buffer that training rows are drawn from, as the original models have it."""


LARGE_BATCH = 2_048
"""Rows a step under the rung "large_batch"."""


def batch_size(model, rungs: Iterable[str]) -> int:
    """Rows a step: the model's own number, unless `rungs` have "large_batch"."""
    return LARGE_BATCH if "large_batch" in rungs else model.hyper.batch_size


@dataclass
class History:
    """The loss of each step, in order."""

    losses: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Evaluation:
    """AUC and log loss by label name, and the rows they were computed on. An AUC is nan where only one class came."""

    auc: dict[str, float]
    log_loss: dict[str, float]
    rows: int


def train(
    model,
    optimizer,
    batches: Iterable,
    steps: int | None = None,
    on_step: Callable[[int, float], None] | None = None,
    step: Callable | None = None,
) -> History:
    """Trains on `batches` of (features, labels) until they or `steps` run out.

    Args:
        on_step: called after each step with its number (from 0) and its loss.
        step: a step made before by `train_step`, so that a second call needs no new trace.
    Raises:
        BadData: there was no batch at all, or a loss was not a finite number. CtrlabError: an embedding variable refused a step,
            for a gradient that is not finite or for its storage.
    """
    step = step or train_step(model, optimizer)
    history = History()
    for number, (features, labels) in enumerate(itertools.islice(batches, steps)):
        with one_sentence():
            loss = float(step(features, labels))
        if not np.isfinite(loss):
            raise BadData(f"A loss must be finite; step {number} of {model.name} gave {loss}. Lower the learning rate.")
        history.losses.append(loss)
        if on_step:
            on_step(number, loss)
    if not history.losses and steps != 0:
        raise BadData(f"Training needs at least one batch; the data set for {model.name} gave none. Check its files and sizes.")
    return history


def evaluate(model, batches: Iterable, predict: Callable | None = None) -> Evaluation:
    """AUC and log loss of each task over all rows of `batches`.

    Raises:
        BadData: there was no batch at all, or a probability was not a finite number. CtrlabError: an embedding variable refused
            a lookup, for its storage.
    """
    predict = predict or predict_step(model)
    pairs = []
    for features, labels in batches:
        with one_sentence():
            pairs.append((predict(features).numpy(), labels.numpy()))
    if not pairs:
        raise BadData("Evaluation needs at least one batch; the data set gave none. Check its files and sizes.")
    p, y = (np.concatenate(part) for part in zip(*pairs))  # [rows, K] each
    if not np.all(np.isfinite(p)):
        raise BadData(f"Probabilities must be finite; {model.name} gave some that are not. Lower the learning rate.")
    both = {task: len(np.unique(y[:, k])) == 2 for k, task in enumerate(model.tasks)}
    auc = {t: float(roc_auc_score(y[:, k], p[:, k])) if both[t] else float("nan") for k, t in enumerate(model.tasks)}
    loss = {t: float(log_loss(y[:, k], p[:, k].astype(np.float64), labels=[0, 1])) for k, t in enumerate(model.tasks)}
    return Evaluation(auc, loss, len(y))


def compile_model(model, optimizer=None):
    """The model, compiled for `fit` and `evaluate` with the same optimizer and loss as `train_step`; AUC as its metric.

    >>> compile_model(build("deepfm")).fit(files.read_train(batch_size=512))     # doctest: +SKIP
    """
    model.compile(
        optimizer=optimizer or make_optimizer(model),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.AUC(from_logits=True, num_thresholds=10_000, multi_label=len(model.tasks) > 1, name="auc")],
    )
    return model
