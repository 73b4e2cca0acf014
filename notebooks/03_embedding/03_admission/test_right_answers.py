"""Right answers that are built in other ways than the lesson's solutions."""

import numpy as np
from right_answers import passing


def filter_by_bincount(counters, places, counts):
    added = np.bincount(places.ravel(), np.repeat(counts, places.shape[1]), len(counters))
    counters[:] = np.clip(counters + added, 0, 255)
    return counters[places].astype(np.int64).min(1) if len(places) else np.zeros(0, np.int64)


def filter_column_by_column(counters, places, counts):
    total = counters.astype(np.int64)
    for column in places.T:
        np.add.at(total, column, counts)
    np.copyto(counters, np.minimum(total, 255).astype(np.uint8))
    return np.min(counters[places], axis=1, initial=255).astype(np.int64)


def filter_by_unique(counters, places, counts):
    place, of = np.unique(places, return_inverse=True)
    added = np.zeros(len(place), np.int64)
    np.add.at(added, of.ravel(), np.broadcast_to(counts[:, None], places.shape).ravel())
    counters[place] = np.minimum(counters[place] + added, 255)
    return np.minimum.reduce(counters[places].astype(np.int64), axis=1, initial=255)


ANSWERS = {
    2: [filter_by_bincount, filter_column_by_column, filter_by_unique],
}
test_another_right_answer_passes = passing("03_embedding/03_admission", ANSWERS)
