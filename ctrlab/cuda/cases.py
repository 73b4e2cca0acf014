"""What the twins are run on: each op on small adversarial input with its float64 answer, and on the contest's sizes to be timed.

A case takes a device and a library and gives a function that launches everything once, forward and backward.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ctrlab.cuda.devices import Device
from ctrlab.profiling.work import Work


@dataclass
class Case:
    """One op on one input.

    Attributes:
        shape: the sizes, in words.
        run: launches the op and its gradient; returns the results by name, in the device's memory.
        expected: float64 answers by name; empty where the input is too large for the reference.
        yardsticks: for results whose terms cancel, the result whose size theirs are held against.
        work: the floor of one run.
        rival: the name of torch's way and a function that runs it, where torch has one.
    """

    shape: str
    run: Callable[[], dict]
    expected: dict[str, np.ndarray] = field(default_factory=dict)
    yardsticks: dict[str, str] = field(default_factory=dict)
    work: Work = field(default_factory=Work)
    rival: tuple[str, Callable[[], object]] | None = None


class Memory:
    """A device's arrays by name, and their addresses, which stay valid as long as this does."""

    UNWRITTEN = -7  # what an empty array of whole numbers holds

    def __init__(self, device: Device):
        self.device = device
        self.arrays: dict[str, object] = {}

    def put(self, name: str, array: np.ndarray) -> int:
        assert name not in self.arrays, f"{name} would lose its memory while its address is in use"
        self.arrays[name] = self.device.put(array)
        return self.device.pointer(self.arrays[name])

    def empty(self, name: str, shape: Sequence[int], dtype=np.float32) -> int:
        # Not zeros: what a kernel leaves unwritten must show.
        filled = np.full(shape, np.nan) if np.issubdtype(dtype, np.floating) else np.full(shape, self.UNWRITTEN)
        return self.put(name, filled.astype(dtype))

    def structs(self, name: str, entries: Sequence[ctypes.Structure]) -> int:
        """An array of C structs, each of numbers and addresses of eight bytes: kept as int64."""
        packed = (type(entries[0]) * len(entries))(*entries)
        return self.put(name, np.frombuffer(packed, np.int64).copy())

    def pointers(self, name: str, addresses: Sequence[int]) -> int:
        return self.put(name, np.array(addresses, np.int64))

    def __getitem__(self, name: str):
        return self.arrays[name]


def splits_of(lengths) -> np.ndarray:
    """int64 [B + 1]."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def histories(rng, rows: int, longest: int, *, small: bool) -> np.ndarray:
    """Lengths [B]; small ones hold the odd cases: none, one, the longest."""
    lengths = rng.integers(0, longest + 1, rows)
    if small:
        lengths[:3] = 0, 1, longest
    return lengths


def padded(flat: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """[N, ...] -> [B, T, ...], NaN past a row's end, so that what must not be read shows."""
    lengths = np.diff(splits)
    out = np.full((len(lengths), max(lengths, default=0), *flat.shape[1:]), np.nan)
    for b, length in enumerate(lengths):
        out[b, :length] = flat[splits[b] : splits[b + 1]]
    return out


def normal(rng, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (scale * rng.standard_normal(shape)).astype(np.float32)
