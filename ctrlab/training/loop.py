"""Training and evaluation with one explicit step, and the same model prepared for Keras's `fit`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf

from ctrlab import devices, masks
from ctrlab.data import explained
from ctrlab.embedding.options import require_whole
from ctrlab.errors import BadData
from ctrlab.models import labels as rules
from ctrlab.ops.refusals import one_sentence
from ctrlab.training.group import ALONE, Group
from ctrlab.training.metrics import auc, calibration, gauc, log_loss
from ctrlab.training.optimizers import make_optimizer
from ctrlab.training.several import TOGETHER, SeveralSteps
from ctrlab.training.step import kept_predict_step, predict_step, train_step
from ctrlab.training.task_auc import aucs

SHUFFLE_ROWS = 20_000
"""Size of the shuffle buffer in examples, as in the original models."""


LARGE_BATCH = 2_048
"""Examples per step under the rung "large_batch"."""


def batch_size(model, rungs: Iterable[str]) -> int:
    """Examples per step: the model's own number, unless `rungs` contain "large_batch"."""
    return LARGE_BATCH if "large_batch" in rungs else model.hyper.batch_size


@dataclass
class History:
    """The loss of each step, in order."""

    losses: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Evaluation:
    """The quality of predictions, by label name.

    Attributes:
        auc: NaN if all examples have the same class.
        log_loss: the mean of -log p(what happened).
        gauc, calibration: see `metrics`, also for soft labels; no GAUC if the schema names no user.
        rows: number of examples on which these were computed.
    """

    auc: dict[str, float]
    log_loss: dict[str, float]
    gauc: dict[str, float]
    calibration: dict[str, float]
    rows: int


OnStep = Callable[[int, float], None]
"""Called after each step with the step's number, from 0, and its loss.

A hook that reads or saves the model may have a method `due() -> int | None`: the number of steps after which it must be called
before the next step begins. Other hooks are called for every step, but possibly after several more steps were taken.
"""


def train(
    model,
    optimizer,
    batches: Iterable,
    steps: int | None = None,
    on_step: OnStep | Sequence[OnStep] = (),
    step: Callable | None = None,
) -> History:
    """Trains on `batches` of (features, labels) until they end or `steps` steps are done.

    Args:
        on_step: called after each step; one function or several.
        step: a step from an earlier `train_step`, so that a second call needs no new trace; or `SeveralSteps` of such a step,
            which takes several in one call if `batches` is a tf.data.Dataset or its iterator.
    Raises:
        BadData: there was no batch, an example could not be read, labels are not as `ctrlab.models.labels` says, or a loss, a
            gradient or a moving statistic was not finite. CtrlabError: `steps` is not a whole number; an embedding variable
            refused a step, because of a gradient that is not finite or because of its storage.
    """
    if steps is not None:
        require_whole("`steps`", steps, 0, 63)
    step = step or train_step(model, optimizer)
    hooks = (on_step,) if callable(on_step) else tuple(on_step)
    history = History()
    with explained(), one_sentence():
        batches = iter(batches)
        several = isinstance(step, SeveralSteps) and isinstance(batches, tf.data.Iterator)
        while steps is None or len(history.losses) < steps:
            if several:
                left = [TOGETHER if steps is None else steps - len(history.losses)]
                left += [due for hook in hooks if (due := getattr(hook, "due", lambda: None)()) is not None]
                losses, problem = step.take(batches, min(left))
            else:
                losses, problem = [float(step(*_pair(batch))) for batch in itertools.islice(batches, 1)], None
            _call_hooks(model, history, losses, hooks, problem)
            if not losses:
                break
    if not history.losses and steps != 0:
        raise BadData(f"Training needs at least one batch; the data set for {model.name} gave none. Check its files and sizes.")
    return history


def _call_hooks(model, history: History, losses: Sequence[float], hooks: Sequence[OnStep], stops: BaseException | None) -> None:
    """Calls every hook for every step that was taken, even if one raises, so that all hooks count the same steps."""
    for loss in losses:
        number = len(history.losses)
        if not np.isfinite(loss):
            bad = BadData(f"A loss must be finite; received {loss} from step {number} of {model.name}: lower the learning rate.")
            raise bad from stops
        history.losses.append(loss)
        for hook in hooks:
            try:
                hook(number, loss)
            except BaseException as problem:
                if stops:
                    stops.add_note(str(problem))
                stops = stops or problem
    if stops:
        raise stops


def evaluate(model, batches: Iterable, predict: Callable | None = None, workers: Group = ALONE) -> Evaluation:
    """AUC, log loss, GAUC and calibration of each task over all examples in `batches` of (features, labels).

    Args:
        model: one of the six, or any Keras model that gives logits [B, K]. Its tasks are named "label", or "label_0" and so on,
            and there is no GAUC.
        predict: the result of a `predict_step`; by default one that is kept in the model, so that a second call needs no new
            trace.
        workers: as in `train_step`, if each of several workers has a part of the examples; all get the same result.
    Raises:
        BadData: there was no batch, an example could not be read, labels are not as `ctrlab.models.labels` says, or a
            probability was not finite. CtrlabError: an embedding variable refused a lookup because of its storage.
    """
    predict = predict or (kept_predict_step(model) if workers is ALONE else predict_step(model, workers))
    pairs, users = [], []
    with explained(), one_sentence():
        for features, labels in map(_pair, batches):
            outputs = predict(features)
            if len(labels) or workers.shard.whole:  # a worker that has no rows left still reads some for the others
                labels = rules.checked(labels, model, outputs)
            pairs.append((outputs.numpy(), labels.numpy()))
            users.append(model.users(features) if hasattr(model, "users") else None)
    if not pairs:
        raise BadData("Evaluation needs at least one batch; the data set gave none. Check its files and sizes.")
    p, y = (_of_all(workers, part) for part in zip(*pairs))  # [examples, K] each
    if not np.all(np.isfinite(p)):
        raise BadData(f"Probabilities must be finite; {model.name} gave some that are not. Lower the learning rate.")
    tasks = list(enumerate(rules.tasks_of(model, p)))
    of_users = {}
    if users[0] is not None:
        everyone = _of_all(workers, users)
        of_users = {t: gauc(p[:, k], y[:, k], everyone) for k, t in tasks}
    areas, loss, ratio = ({t: metric(p[:, k], y[:, k]) for k, t in tasks} for metric in (auc, log_loss, calibration))
    return Evaluation(areas, loss, of_users, ratio, len(y))


def _of_all(workers: Group, parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(workers.gathered(np.concatenate(parts)))


def _pair(batch) -> tuple:
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        received = f"{len(batch)} values" if isinstance(batch, tuple | list) else type(batch).__name__
        raise BadData(
            f"A batch must be a pair (features, labels); received {received}: give `read` of files, or a list of such pairs."
        )
    masks.require_features(batch[0])
    masks.require_values("labels", batch[1])
    return tuple(batch)


def compile_model(model, optimizer=None, loop: bool = False):
    """The model, compiled for `fit` and `evaluate` with the optimizer and loss of `train_step`. Its metrics are the AUC of each
    label: "auc" if there is only one, otherwise "auc_<label>".

    Args:
        loop: take several steps per call of the graph, as the rung "loop" does; callbacks are then called once per several steps.

    >>> compile_model(build("deepfm")).fit(files.read_train(batch_size=512))     # doctest: +SKIP
    """
    with devices.of(model):  # the variables of metrics are made here
        model.compile(
            optimizer=optimizer or make_optimizer(model),
            loss=keras.losses.BinaryCrossentropy(from_logits=True),
            metrics=aucs(model.tasks),
            steps_per_execution=TOGETHER if loop else 1,
        )
    return model
