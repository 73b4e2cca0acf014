"""What the field judges click models by, beside AUC and log loss. NumPy only.

GAUC          sum over users of (rows of u) AUC_u / sum of (rows of u), over users with clicks and with none as well
              Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018, equation 7
calibration   sum of predicted probabilities / clicks observed; 1 is best, above it the model promises too much
              He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014, section 3
"""

from __future__ import annotations

import numpy as np


def gauc(p: np.ndarray, y: np.ndarray, users: np.ndarray) -> float:
    """The AUC inside of each user's rows, weighted by their number; nan where no user has both classes.

    A model ranks one user's items for that user: what AUC gains by telling eager users from others, GAUC does not see.

    Args:
        p: predictions, float [n]. y: labels, 0 or 1, [n]. users: who saw each row, [n] of any dtype.

    >>> gauc(np.array([0.9, 0.1, 0.8, 0.7]), np.array([1, 0, 0, 1]), np.array(["a", "a", "b", "b"]))
    0.5
    """
    _, user = np.unique(users, return_inverse=True)
    order = np.lexsort((p, user))
    p, y, user = p[order], y[order].astype(np.float64), user[order]
    count = np.bincount(user)
    clicks = np.bincount(user, y)
    first = np.cumsum(count) - count  # of each user's rows
    new = np.ones(len(p), bool)  # does a row differ from the one before it, in user or prediction?
    new[1:] = (user[1:] != user[:-1]) | (p[1:] != p[:-1])
    start = np.flatnonzero(new)
    ends = np.append(start[1:], len(p))
    middle = np.repeat((start + 1 + ends) / 2, ends - start) - first[user]  # rank inside the user's rows; ties share the middle
    ranks = np.bincount(user, middle * y)
    both = (clicks > 0) & (clicks < count)
    if not both.any():
        return float("nan")
    n, c = count[both], clicks[both]
    auc = (ranks[both] - c * (c + 1) / 2) / (c * (n - c))
    return float(np.sum(n * auc) / np.sum(n))


def calibration(p: np.ndarray, y: np.ndarray) -> float:
    """Clicks predicted over clicks observed; nan where none was observed.

    >>> calibration(np.array([0.25, 0.75]), np.array([0, 1]))
    1.0
    """
    observed = float(np.sum(y))
    return float(np.sum(p, dtype=np.float64)) / observed if observed else float("nan")
