"""NumPy twins of the types that ops take: TensorFlow's ragged and sparse tensors, slices and variables, and our `Events`; and
helpers that draw test cases.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Variable(np.ndarray):
    """An array, made by `array.view(Variable)`, that ops treat as a variable: some gather its rows, some change it."""


class Slices(NamedTuple):
    """Twin of tf.IndexedSlices: rows [n, D] and their ids int64 [n], under the same two names."""

    indices: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Ragged:
    """Twin of tf.RaggedTensor [B, (L)]: row b has values[row_splits[b] : row_splits[b + 1]]."""

    values: np.ndarray
    row_splits: np.ndarray

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @classmethod
    def of(cls, rows, dtype) -> Ragged:
        """A ragged array from one list per row."""
        values = [value for row in rows for value in row]
        return cls(np.array(values, dtype), np.cumsum([0, *map(len, rows)], dtype=np.int64))


@dataclass(frozen=True)
class Events:
    """Twin of `ctrlab.ops.events.Events`: the events of example b are flat[splits[b] : splits[b + 1]], [N] or [N, C]."""

    splits: np.ndarray
    flat: np.ndarray

    @classmethod
    def of(cls, lengths, flat) -> Events:
        """Events with drawn numbers, for histories of these lengths."""
        return cls(np.cumsum([0, *lengths], dtype=np.int64), flat)


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    """float64 numbers that float32 can represent, so that all ways get the same input."""
    return (scale * rng.standard_normal(shape)).astype(np.float32).astype(np.float64)


def sigmoid_layers(rng: np.random.Generator, *sizes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(kernel [in, out], bias [out]) from each size to the next."""
    return [(normal(rng, i, o, scale=0.5), normal(rng, o, scale=0.1)) for i, o in itertools.pairwise(sizes)]


def repeated(events: Events, times) -> Events:
    """The history of example b `times[b]` times, one after the other."""
    pieces = [events.flat[begin:end] for begin, end in itertools.pairwise(events.splits)]
    copies = [piece for piece, count in zip(pieces, times) for _ in range(count)]
    return Events.of([len(piece) for piece in copies], np.concatenate([events.flat[:0], *copies]))
