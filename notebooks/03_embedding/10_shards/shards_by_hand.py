"""Right answers to the exercises of the lesson on shards."""

import numpy as np


def ask(ids, workers, owner=lambda keys, workers: keys % workers):
    keys, place = np.unique(ids, return_inverse=True)
    owners = owner(keys, workers)
    order = np.argsort(owners, kind="stable")
    at = np.empty_like(order)
    at[order] = np.arange(len(order))
    return [keys[owners == w] for w in range(workers)], at[place]


def merge(keys, gradients):
    distinct, place = np.unique(keys, return_inverse=True)
    sums = np.zeros((len(distinct), gradients.shape[1]), np.float32)
    np.add.at(sums, place, gradients)
    return distinct, sums
