"""The checks of the lesson on the six models against right answers and every kind of wrong one."""

import numpy as np
import pytest
import tensorflow as tf
from ctrlab.lessons.topics.six_models import checks
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score
from solved import solved
from wrong_answers import judge

LESSON = "01_baseline/03_six_models"
second_order, auc = solved(LESSON, 1), solved(LESSON, 2)


def pair_by_pair(v):
    fields = v.shape[1]
    i, j = np.triu_indices(fields, 1)
    return tf.reduce_sum(tf.gather(v, i, axis=1) * tf.gather(v, j, axis=1), axis=1)


def by_rankdata(labels, scores):
    ones = labels == 1
    if not ones.any() or ones.all():
        return float("nan")
    m, n = ones.sum(), (~ones).sum()
    return (rankdata(scores)[ones].sum() - m * (m + 1) / 2) / (m * n)


def ties_by_order(labels, scores):
    ones = labels == 1
    if not ones.any() or ones.all():
        return float("nan")
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    m, n = ones.sum(), (~ones).sum()
    return (ranks[ones].sum() - m * (m + 1) / 2) / (m * n)


def row_by_row(labels, scores):
    won = ones = 0
    zeros_below = 0.0
    order = np.argsort(scores, kind="stable")
    values, y = scores[order].tolist(), labels[order].tolist()
    start = 0
    while start < len(values):
        end = start
        while end < len(values) and values[end] == values[start]:
            end += 1
        clicks = sum(y[start:end])
        zeros = end - start - clicks
        won += clicks * (zeros_below + zeros / 2)
        zeros_below += zeros
        ones += clicks
        start = end
    return float(won / (ones * zeros_below)) if ones and zeros_below else float("nan")


def sorts_in_place(labels, scores):
    answer = auc(labels, scores)
    scores.sort()
    return answer


WRONG_SECOND_ORDER = {
    "nothing": lambda v: None,
    "zeros": lambda v: tf.zeros([v.shape[0], v.shape[2]]),
    "each vector with itself too": lambda v: 0.5 * tf.square(tf.reduce_sum(v, 1)),
    "every pair twice": lambda v: 2 * second_order(v),
    "summed to a number": lambda v: tf.reduce_sum(second_order(v), 1),
    "low precision": lambda v: tf.cast(second_order(tf.cast(v, tf.bfloat16)), tf.float32),
    "neighbours only": lambda v: tf.reduce_sum(v[:, 1:] * v[:, :-1], 1),
    "float64": lambda v: tf.cast(second_order(v), tf.float64),
    "pair by pair": (pair_by_pair, "Budget: no pairs"),
}
WRONG_AUC = {
    "nothing": lambda labels, scores: None,
    "always a half": lambda labels, scores: 0.5,
    "accuracy": lambda labels, scores: float(np.mean((scores > 0) == labels)) if len(labels) else float("nan"),
    "upside down": lambda labels, scores: 1 - auc(labels, scores),
    "no nan": lambda labels, scores: np.nan_to_num(auc(labels, scores), nan=0.5),
    "an error for one class": lambda labels, scores: auc(labels, scores) if 0 < labels.sum() < len(labels) else 1 / 0,
    "ties by their order": ties_by_order,
    "equal scores count as won": lambda labels, scores: auc(labels, scores - 1e-3 * (1 - labels)),
    "off by one": lambda labels, scores: auc(labels, scores) + 1 / max(len(labels), 1) ** 2,
    "sorts its input": sorts_in_place,
    "all pairs": (checks.auc, "Budget: one sort"),
    "row by row": (row_by_row, "Budget: no loop over rows"),
}


test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON, {1: (second_order, WRONG_SECOND_ORDER), 2: ((auc, by_rankdata), WRONG_AUC)}
)


def test_the_definition_is_sklearns():
    for _, labels, scores in checks.scored(np.random.default_rng(1)):
        if len(np.unique(labels)) == 2:
            assert checks.auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)
