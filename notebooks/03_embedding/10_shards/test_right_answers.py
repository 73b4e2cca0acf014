"""Right answers that are built in other ways than the lesson's solutions."""

import numpy as np
from right_answers import passing
from right_sums import sums_by_bincount, sums_by_flat_bincount, sums_by_reduceat


def ask_by_lexsort(ids, workers, owner):
    distinct, place = np.unique(ids, return_inverse=True)
    owners = owner(distinct, workers)
    order = np.lexsort((distinct, owners))
    rank = np.argsort(order)
    return np.split(distinct[order], np.cumsum(np.bincount(owners, minlength=workers))[:-1]), rank[place]


def ask_by_concatenated_lists(ids, workers, owner):
    distinct, place = np.unique(ids, return_inverse=True)
    owners = owner(distinct, workers)
    where = [np.flatnonzero(owners == w) for w in range(workers)]
    rank = np.empty(len(distinct), np.int64)
    rank[np.concatenate(where)] = np.arange(len(distinct))
    return [distinct[each] for each in where], rank[place]


def ask_worker_by_worker(ids, workers, owner):
    distinct, place = np.unique(ids, return_inverse=True)
    owners, rank, keys, begins = owner(distinct, workers), np.zeros(len(distinct), np.int64), [], 0
    for w in range(workers):
        mine = owners == w
        keys.append(distinct[mine])
        rank[mine] = begins + np.arange(mine.sum())
        begins += len(keys[-1])
    return keys, rank[place]


ANSWERS = {
    1: [ask_by_lexsort, ask_by_concatenated_lists, ask_worker_by_worker],
    2: [sums_by_reduceat, sums_by_bincount, sums_by_flat_bincount],
}
test_another_right_answer_passes = passing("03_embedding/10_shards", ANSWERS)
