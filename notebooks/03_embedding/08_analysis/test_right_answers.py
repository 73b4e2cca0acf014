"""Right answers that are built in other ways than the lesson's solutions."""

import numpy as np
from right_answers import passing


def what_if_by_histogram(frequency, thresholds):
    values, counts = np.unique(frequency, return_counts=True)
    place = np.searchsorted(values, thresholds)
    rows = np.append(np.cumsum(counts[::-1])[::-1], 0)[place]
    traffic = np.append(np.cumsum((values * counts)[::-1])[::-1], 0)[place]
    return rows.astype(np.int64), traffic / max(frequency.sum(), 1)


def what_if_falling(frequency, thresholds):
    falling = -np.sort(-frequency)
    rows = np.searchsorted(-falling, -thresholds, side="right")
    return rows.astype(np.int64), np.concatenate([[0], falling.cumsum()])[rows] / max(int(falling.sum()), 1)


def what_if_from_below(frequency, thresholds):
    often = np.sort(frequency)
    lost = np.concatenate([np.zeros(1, np.int64), np.cumsum(often)])
    place = np.searchsorted(often, thresholds)
    return len(often) - place, (lost[-1] - lost[place]) / (lost[-1] or 1)


ANSWERS = {
    1: [what_if_by_histogram, what_if_falling, what_if_from_below],
}
test_another_right_answer_passes = passing("03_embedding/08_analysis", ANSWERS)
