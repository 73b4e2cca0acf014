"""What references take beside plain arrays, in NumPy: twins of TensorFlow's ragged tensors, slices, variables, and of `Events`;
and what their cases are drawn with.
"""

from __future__ import annotations

import itertools
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

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

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

    @classmethod
    def of(cls, lengths, flat) -> Events:
        """From the rows' lengths."""
        return cls(np.cumsum([0, *lengths], dtype=np.int64), flat)


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """float64, of numbers that float32 has, so that all ways get the same."""
    return (scale * rng.standard_normal(shape)).astype(np.float32).astype(np.float64)


def sigmoid_layers(rng: np.random.Generator, *sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(kernel [in, out], bias [out]) from each size to the next."""
    return [(normal(rng, i, o, scale=0.5), normal(rng, o, scale=0.1)) for i, o in itertools.pairwise(sizes)]
