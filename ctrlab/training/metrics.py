"""Metrics of click models: predictions p and labels y of one task.

AUC           the chance that a click has a higher prediction than a non-click; half where they tie
log loss      mean of -y log p - (1 - y) log(1 - p)
GAUC          sum over users of (examples of u) AUC_u / sum of (examples of u), over users with both clicks and non-clicks
              Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018, equation 7
calibration   sum of predicted probabilities / observed clicks; 1 is best; above 1 the model predicts too many clicks
              He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014, section 3

A soft label y in (0, 1) counts in the AUC as y clicks and 1 - y non-clicks with the same prediction. GAUC is not defined for soft
labels here: it is NaN. A metric without a value, such as one of no examples, is NaN. All functions raise BadData if predictions
are not finite, if labels lie outside of [0, 1], or if their numbers differ.
"""

from __future__ import annotations

import numpy as np
import sklearn.metrics

from ctrlab import masks
from ctrlab.errors import BadData


def auc(p: np.ndarray, y: np.ndarray) -> float:
    """The area under the ROC curve; NaN without examples of both classes.

    Args:
        p: predictions, float [n]. y: labels in [0, 1], [n].

    >>> auc(np.array([0.9, 0.1, 0.8]), np.array([1, 0, 0.5]))
    0.9444444444444444
    """
    happened, p, weight = _split(*_checked(p, y))
    if len(np.unique(happened)) < 2:
        return float("nan")
    return float(sklearn.metrics.roc_auc_score(happened, p, sample_weight=weight))


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    """The mean log loss; NaN without examples.

    Args:
        p: probabilities, float [n]. y: labels in [0, 1], [n].
    Raises:
        BadData: also if a probability is not in [0, 1].
    """
    p, y = _checked(p, y)
    if (outside := (p < 0) | (p > 1)).any():
        raise BadData(f"Probabilities must be in [0, 1]; received {p[outside][0]}: give the sigmoid of logits.")
    if not len(p):
        return float("nan")
    happened, p, weight = _split(p.astype(np.float64), y)
    return float(sklearn.metrics.log_loss(happened, p, sample_weight=weight, labels=[0, 1]))


def _checked(p, y) -> tuple[np.ndarray, np.ndarray]:
    for what, values in ("predictions", p), ("labels", y):
        masks.require_values(what, values)
    p, y = np.asarray(p), np.asarray(y)
    if p.ndim != 1 or p.shape != y.shape or {p.dtype.kind, y.dtype.kind} - set("biuf"):
        received = " and ".join(f"{each.dtype.name} {[*each.shape]}" for each in (p, y))
        raise BadData(
            f"A metric takes numbers, predictions [n] and labels [n] of one task; received {received}: give one column."
        )
    if not np.isfinite(p).all():
        raise BadData(f"Predictions must be finite; received {p[~np.isfinite(p)][0]}: lower the learning rate.")
    if not (good := (y >= 0) & (y <= 1)).all():
        raise BadData(
            f"Labels must be numbers from 0 to 1; received {y[~good][0]}: write 1 for what happened and 0 for what did not."
        )
    return p, y


def _is_binary(y: np.ndarray) -> bool:
    return bool(np.all((y == 0) | (y == 1)))


def _split(p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Outcomes (0 or 1), predictions and weights; each soft label becomes two weighted examples."""
    if _is_binary(y):
        return y, p, None
    y = y.astype(np.float64)
    happened, weight = np.repeat([1.0, 0.0], len(y)), np.concatenate([y, 1 - y])
    there = weight > 0
    return happened[there], np.concatenate([p, p])[there], weight[there]


def gauc(p: np.ndarray, y: np.ndarray, users: np.ndarray) -> float:
    """The mean of each user's AUC, weighted by its number of examples; NaN if no user has both classes, or a label is soft.

    Unlike AUC, GAUC does not reward telling active users from others: a production model only ranks items for one user.

    Args:
        p: predictions, float [n]. y: labels, 0 or 1, [n]. users: the user of each example, [n] of any dtype.

    >>> gauc(np.array([0.9, 0.1, 0.8, 0.7]), np.array([1, 0, 0, 1]), np.array(["a", "a", "b", "b"]))
    0.5
    """
    p, y = _checked(p, y)
    if len(users) != len(p):
        raise BadData(f"GAUC needs the user of each prediction; received {len(users)} users and {len(p)} predictions.")
    if not _is_binary(y):
        return float("nan")
    _, user = np.unique(users, return_inverse=True)
    order = np.lexsort((p, user))
    p, y, user = p[order], y[order].astype(np.float64), user[order]
    count = np.bincount(user)
    clicks = np.bincount(user, y)
    first = np.cumsum(count) - count  # each user's first position
    new = np.ones(len(p), bool)  # whether an example differs from the one before it, in user or prediction
    new[1:] = (user[1:] != user[:-1]) | (p[1:] != p[:-1])
    start = np.flatnonzero(new)
    ends = np.append(start[1:], len(p))
    middle = np.repeat((start + 1 + ends) / 2, ends - start) - first[user]  # rank within the user; ties share the middle rank
    ranks = np.bincount(user, middle * y)
    both = (clicks > 0) & (clicks < count)
    if not both.any():
        return float("nan")
    n, c = count[both], clicks[both]
    auc = (ranks[both] - c * (c + 1) / 2) / (c * (n - c))
    return float(np.sum(n * auc) / np.sum(n))


def calibration(p: np.ndarray, y: np.ndarray) -> float:
    """Predicted clicks over observed clicks; NaN if no click was observed.

    >>> calibration(np.array([0.25, 0.75]), np.array([0, 1]))
    1.0
    """
    p, y = _checked(p, y)
    observed = float(np.sum(y))
    return float(np.sum(p, dtype=np.float64)) / observed if observed else float("nan")
