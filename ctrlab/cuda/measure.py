"""The error of a twin relative to float64, its time, and the ceilings of the GPU."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass

import numpy as np

from ctrlab.cuda.cases import Case
from ctrlab.cuda.devices import Cupy, Torch
from ctrlab.profiling.timing import compare, measure
from ctrlab.profiling.work import Ceilings

OPS_TOLERANCE = 1e-5  # by norm, as on the CPU: float32 sums of some hundred numbers
REPETITIONS = 15
COPIED = 2**28  # floats
MATMUL = 8192
GATHERED, TABLE_ROWS, ROW_FLOATS = 2**22, 2**24, 16


@dataclass(frozen=True)
class Row:
    """A recorded measurement.

    Attributes:
        speedup: torch's time over ours, median and 95 % interval over paired blocks; None if torch has no such op.
        percent_of_bound: the least time at the GPU's measured ceilings over ours.
    """

    op: str
    case: str
    shape: str
    rival: str | None
    speedup: tuple[float, float, float] | None
    percent_of_bound: float
    device: str
    recorded_on: str

    def __str__(self) -> str:
        ratio = "" if self.speedup is None else "{0:.2f}x [{1:.2f}, {2:.2f}] {rival}, ".format(*self.speedup, rival=self.rival)
        return f"{self.op} {self.case} ({self.shape}): {ratio}{self.percent_of_bound:.1f} % of the bound"


def distance(expected: np.ndarray, received: np.ndarray, yardstick: np.ndarray) -> float:
    """|a - b| / |yardstick|; inf if shapes differ, a number is not finite, or integers differ."""
    if np.issubdtype(expected.dtype, np.integer):
        return 0.0 if np.array_equal(expected, received) else float("inf")
    received = np.asarray(received, np.float64)
    if received.shape != expected.shape or not np.all(np.isfinite(received)):
        return float("inf")
    gap, size = np.linalg.norm((received - expected).ravel()), np.linalg.norm(yardstick.ravel())
    return 0.0 if gap == 0 else float(gap / size) if size else float("inf")


def time_case(op: str, name: str, case: Case, device: Torch | Cupy) -> Row:
    """Times our op, and torch's equivalent if the device is torch's, in one paired run."""

    def waited(run):
        def once():
            run()
            device.synchronize()

        return once

    variants = {"ours": waited(case.run)}
    rival = case.rival if isinstance(device, Torch) else None
    if rival:
        variants["rival"] = waited(rival[1]())
    compared = compare(
        variants, lambda _: (), baseline="ours", repetitions=REPETITIONS, work=case.work, ceilings=gpu_ceilings(device)
    )
    ratio = None
    if rival:
        found = compared.ratio("rival")  # our time over the rival's: its inverse is our speed-up
        ratio = (1 / found.median, 1 / found.high, 1 / found.low)
    percent = compared["ours"].percent_of_bound
    return Row(op, name, case.shape, rival and rival[0], ratio, percent, device.name, datetime.date.today().isoformat())


@functools.cache
def gpu_ceilings(device: Torch | Cupy) -> Ceilings:
    """The ceilings of the GPU's memory and matrix units, as `ctrlab.profiling.roofline` measures them on a CPU."""
    library = device.torch if isinstance(device, Torch) else device.cupy
    on_gpu = {"device": "cuda"} if isinstance(device, Torch) else {}
    zeros = functools.partial(library.zeros, dtype=library.float32, **on_gpu)

    def seconds(run) -> float:
        def once():
            run()
            device.synchronize()

        return min(measure(once, lambda _: (), name="ceiling", repetitions=5).samples)

    return Ceilings(
        sgemm=2 * MATMUL**3 / seconds(_product(zeros((MATMUL, MATMUL)))),
        bf16=float("nan"),
        stream=8 * COPIED / seconds(_copy(library, zeros(COPIED), zeros(COPIED))),
        stream_one_thread=float("nan"),
        random_rows=GATHERED / seconds(_gather(zeros((TABLE_ROWS, ROW_FLOATS)), device.put(_places()))),
        sigmoids=float("inf"),  # not measured, so not part of the bound
        device=device.name,
    )


def _product(square):
    return lambda: square @ square


def _copy(library, source, target):
    if hasattr(target, "copy_"):
        return lambda: target.copy_(source)
    return lambda: library.copyto(target, source)


def _gather(table, ids):
    return lambda: table[ids]


def _places() -> np.ndarray:
    return np.random.default_rng(0).integers(0, TABLE_ROWS, GATHERED)
