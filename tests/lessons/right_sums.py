"""Sums by row, built in other ways, for two lessons."""

import numpy as np


def sums_by_reduceat(ids, gradients):
    order = np.argsort(ids, kind="stable")
    rows, first = np.unique(ids[order], return_index=True)
    if not len(rows):
        return rows, np.zeros((0, gradients.shape[1]), np.float32)
    return rows, np.add.reduceat(gradients[order], first, axis=0)


def sums_by_bincount(ids, gradients):
    rows, place = np.unique(ids, return_inverse=True)
    columns = [np.bincount(place, gradients[:, d], len(rows)) for d in range(gradients.shape[1])]
    return rows, np.stack(columns, 1).astype(np.float32)


def sums_by_flat_bincount(ids, gradients):
    rows, place = np.unique(ids, return_inverse=True)
    width = gradients.shape[1]
    flat = (place[:, None] * width + np.arange(width)).ravel()
    return rows, np.bincount(flat, gradients.ravel(), len(rows) * width).reshape(-1, width).astype(np.float32)
