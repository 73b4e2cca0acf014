"""Ends a training when the quality on held-out rows no longer improves, and restores the best state."""

from __future__ import annotations

import logging
import numbers
from collections.abc import Iterable, Iterator
from typing import Literal

import keras
import numpy as np

from ctrlab.errors import BadData, CtrlabError, choose
from ctrlab.training.loop import Evaluation, evaluate
from ctrlab.training.metrics import auc
from ctrlab.training.state import get_state, set_state
from ctrlab.training.step import predict_step

MONITORS = ("auc", "log_loss")
CHANCE = 0.53
"""An AUC that a label must pass in some epoch. 0.5 is chance, and validation rows are few. Soft labels allow less than 1; they
must pass the same share of the way from 0.5 to that.
"""
FAR_OFF = 1.05
"""Above this multiple of a label's least log loss, the kept epoch's probabilities are called worse."""

log = logging.getLogger(__name__)


def _require_again(validation) -> None:
    """Raises CtrlabError unless the argument is an iterable of batches that can be read repeatedly."""
    rule = "validation is batches of (features, labels), read after each epoch"
    if isinstance(validation, str | bytes) or not hasattr(validation, "__iter__"):
        raise CtrlabError(f"{rule}; received {type(validation).__name__}: give a Dataset, as of `ctrlab.data.read`, or a list.")
    if hasattr(validation, "__next__"):
        raise CtrlabError(f"{rule}; received {type(validation).__name__}, which can be read once only: give a Dataset or a list.")


class EarlyStopping(keras.callbacks.Callback):
    """Evaluates after each epoch; ends after `patience` epochs in a row without a gain, and restores the state of the best epoch.

    The state is complete: weights, rows of embedding variables, moving statistics, slots and the step count; it is kept in
    memory. Keras's own callback of this name keeps `model.get_weights()`, which has no rows of embedding variables.

    Click models memorize ids: with some 100,000 rows the second or third pass often makes them worse on new rows.

    Its end logs a warning for each label whose AUC never rose well above 0.5, and for each label whose log loss in the best epoch
    by AUC is well above its least: AUC sees the order only, so it may still rise while probabilities leave the truth.

    Callbacks that stand after it find `val_auc` and `val_log_loss` in their logs; of several labels, `val_auc_<label>` and so on.

    Args:
        validation: batches of (features, labels) that are not trained on. They are read again after each epoch, so an iterator is
            refused.
        patience: a whole number of at least 1.
        monitor: the metric that must improve, as a mean over the labels: "auc" must rise, "log_loss" must fall.
    Attributes:
        evaluations: the evaluation of each epoch of the latest training, in order; one that is resumed begins anew.
        best: the index of the best one.
    Raises:
        UnknownName: no such monitor. CtrlabError: `patience` or `validation` is invalid. BadData, in training: as in `evaluate`;
            or the AUC is the monitor and is not defined, because the validation rows have only one class.

    >>> compile_model(model).fit(train, epochs=20, callbacks=[EarlyStopping(validation)])     # doctest: +SKIP
    """

    def __init__(self, validation: Iterable, patience: int = 2, monitor: Literal["auc", "log_loss"] = "auc"):
        super().__init__()
        self.monitor = choose("monitor", monitor, MONITORS)
        if isinstance(patience, bool) or not isinstance(patience, numbers.Integral) or patience < 1:
            raise CtrlabError(f"patience is a number of epochs without a gain, a whole one from 1 on; received {patience!r}.")
        _require_again(validation)
        self.validation, self.patience = validation, patience
        self.evaluations: list[Evaluation] = []
        self.best = 0

    def begin(self, model, optimizer) -> None:
        """Starts a training of `model`; `fit` calls it automatically."""
        self._training = model, optimizer
        self._predict, self._state = predict_step(model), None
        self.evaluations, self.best = [], 0

    def look(self) -> bool:
        """Evaluates after an epoch. Returns whether the training should end."""
        self.evaluations.append(evaluate(self._training[0], self.validation, self._predict))
        latest = len(self.evaluations) - 1
        if self._score(latest) > self._score(self.best) or latest == 0:
            self.best, self._state = latest, get_state(*self._training)
        return latest - self.best >= self.patience

    def restore(self) -> None:
        """Restores the state of the best epoch, and warns of what it does not tell by itself."""
        if self._state is not None:
            set_state(self._state, *self._training)
            for sentence in self._warnings():
                log.warning(sentence)

    def _warnings(self) -> Iterator[str]:
        for k, label in enumerate(self.evaluations[0].auc):
            most = max(each.auc[label] for each in self.evaluations)
            if most < CHANCE and most < 0.5 + (CHANCE - 0.5) * (self._highest_auc(k) - 0.5) / 0.5:
                yield (
                    f"The model has hardly learned {label!r}: the AUC on the validation rows was at most {most:.3f}, and chance "
                    "is 0.5. Train longer or at another learning rate, or try another model: it may find more in these columns."
                )
            losses = [each.log_loss[label] for each in self.evaluations]
            least = int(np.argmin(losses))
            if self.monitor == "auc" and losses[self.best] > FAR_OFF * losses[least]:
                yield (
                    f"Epoch {self.best + 1} is kept for its AUC, but its log loss of {label!r} is {losses[self.best]:.3g}; epoch "
                    f"{least + 1} had {losses[least]:.3g}. Where probabilities count, stop by the log loss: "
                    "EarlyStopping(..., monitor='log_loss')."
                )

    def _highest_auc(self, task: int) -> float:
        """The AUC of the labels themselves, which is 1 if each is 0 or 1."""
        labels = np.concatenate([np.reshape(labels, (len(labels), -1))[:, task] for _, labels in self.validation])
        return auc(labels, labels)

    def _score(self, epoch: int) -> float:
        values = getattr(self.evaluations[epoch], self.monitor)
        if odd := [label for label, value in values.items() if np.isnan(value)]:
            raise BadData(
                f"AUC needs validation rows of both classes; all have the same value of label {odd[0]!r}. Take more rows, or "
                "monitor the log loss."
            )
        mean = float(np.mean(list(values.values())))
        return mean if self.monitor == "auc" else -mean

    def on_train_begin(self, logs=None):
        self.begin(self.model, self.model.optimizer)

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training |= self.look()
        if logs is not None:
            found = self.evaluations[-1]
            one = len(found.auc) == 1
            for name in MONITORS:
                logs |= {f"val_{name}" if one else f"val_{name}_{label}": v for label, v in getattr(found, name).items()}

    def on_train_end(self, logs=None):
        self.restore()
