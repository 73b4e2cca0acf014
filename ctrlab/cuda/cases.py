"""The inputs of the twins: small adversarial ones with their float64 answers, and the contest's sizes for timing.

A case takes a device and a library, and returns a function that launches op and gradient once.
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
        expected: float64 answers by name; empty if the input is too large for the reference.
        yardsticks: {result whose terms cancel: result whose norm its error is compared with}.
        work: the least work of one run.
        rival: the name of torch's equivalent and a function that runs it, if there is one.
    """

    shape: str
    run: Callable[[], dict]
    expected: dict[str, np.ndarray] = field(default_factory=dict)
    yardsticks: dict[str, str] = field(default_factory=dict)
    work: Work = field(default_factory=Work)
    rival: tuple[str, Callable[[], object]] | None = None


class Memory:
    """A device's arrays by name, and their addresses, which are valid as long as this object exists."""

    UNWRITTEN = -7  # the initial value of integer arrays

    def __init__(self, device: Device):
        self.device = device
        self.arrays: dict[str, object] = {}

    def put(self, name: str, array: np.ndarray) -> int:
        assert name not in self.arrays, f"{name} would lose its memory while its address is in use"
        self.arrays[name] = self.device.put(array)
        return self.device.pointer(self.arrays[name])

    def empty(self, name: str, shape: Sequence[int], dtype=np.float32) -> int:
        # Not zeros, so that elements which a kernel does not write are noticed.
        filled = np.full(shape, np.nan) if np.issubdtype(dtype, np.floating) else np.full(shape, self.UNWRITTEN)
        return self.put(name, filled.astype(dtype))

    def structs(self, name: str, entries: Sequence[ctypes.Structure]) -> int:
        """An array of C structs. All their fields are numbers or addresses of eight bytes, so the array is int64."""
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
    """Lengths [B]; small batches include the special lengths: zero, one, the longest."""
    lengths = rng.integers(0, longest + 1, rows)
    if small:
        lengths[:3] = 0, 1, longest
    return lengths


def padded(flat: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """[N, ...] -> [B, T, ...], with NaN past a history's end, so that a forbidden read is noticed."""
    lengths = np.diff(splits)
    out = np.full((len(lengths), max(lengths, default=0), *flat.shape[1:]), np.nan)
    for b, length in enumerate(lengths):
        out[b, :length] = flat[splits[b] : splits[b + 1]]
    return out


def normal(rng, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (scale * rng.standard_normal(shape)).astype(np.float32)
