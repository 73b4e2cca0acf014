"""What references take beside plain arrays, in NumPy: the twins of TensorFlow's ragged tensors, slices and variables, and of `Events`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Variable(np.ndarray):
    """An array, by `array.view(Variable)`, that ops take as a variable: some look rows up in it, some change it."""


class Slices(NamedTuple):
    """As tf.IndexedSlices, which has the same two names: rows [n, D], and their ids int64 [n]."""

    indices: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Ragged:
    """As a tf.RaggedTensor [B, (L)]: row b has values[row_splits[b] : row_splits[b + 1]]."""

    values: np.ndarray
    row_splits: np.ndarray

    @classmethod
    def of(cls, rows, dtype) -> Ragged:
        """From lists, one a row."""
        values = [value for row in rows for value in row]
        return cls(np.array(values, dtype), np.cumsum([0, *map(len, rows)], dtype=np.int64))


@dataclass(frozen=True)
class Events:
    """As `ctrlab.ops.events.Events`: row b's events are flat[splits[b] : splits[b + 1]], [N] or [N, C]."""

    splits: np.ndarray
    flat: np.ndarray
