"""Common metrics of click models besides AUC and log loss. NumPy only.

GAUC          sum over users of (examples of u) AUC_u / sum of (examples of u), over users with both clicks and non-clicks
              Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018, equation 7
calibration   sum of predicted probabilities / observed clicks; 1 is best; above 1 the model predicts too many clicks
              He et al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014, section 3
"""

from __future__ import annotations

import numpy as np


def gauc(p: np.ndarray, y: np.ndarray, users: np.ndarray) -> float:
    """The mean of each user's AUC, weighted by the user's number of examples; NaN if no user has both classes.

    Unlike AUC, GAUC does not reward telling active users from others: a production model only ranks items for one user.

    Args:
        p: predictions, float [n]. y: labels, 0 or 1, [n]. users: the user of each example, [n] of any dtype.

    >>> gauc(np.array([0.9, 0.1, 0.8, 0.7]), np.array([1, 0, 0, 1]), np.array(["a", "a", "b", "b"]))
    0.5
    """
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
    observed = float(np.sum(y))
    return float(np.sum(p, dtype=np.float64)) / observed if observed else float("nan")
