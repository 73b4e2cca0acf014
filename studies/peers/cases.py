"""The cases of the comparison: sizes, batches and initial weights.

This module imports only NumPy, because every worker imports it, in whatever environment it runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

Kind = Literal["lookup", "lookup_alone", "variable", "deepfm", "dlrm", "din", "gru", "augru"]
Batch = dict[str, np.ndarray]

SEED = 2021
LEARNING_RATE = 0.01
FIRST_ACCUMULATOR = 0.1
"""Every side trains with Adagrad: all libraries have it with sparse updates. TensorFlow's accumulators begin at 0.1."""
CHECKED_STEPS = 2
"""Losses that must agree: with the initial weights, and after one step. Later losses of any two libraries drift by rounding."""
ALPHA = 0.1
"""The initial slope of DIN's PReLU."""


@dataclass(frozen=True)
class Case:
    """One computation and its sizes.

    Attributes:
        sizes: {name: size}; the names depend on the kind (see CASES).
        batches: number of different batches, used in rotation.
        units: for a model, the layers of its towers by name, {"deep": (512, 128, 32)}. They come with the job, because only our
            own environment can import the model class that defines them (see `studies.peers.units`).
    """

    name: str
    kind: Kind
    sizes: dict[str, int]
    batches: int = 8
    units: dict[str, Sequence[int]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> int:
        try:
            return self.__dict__["sizes"][name]
        except KeyError:
            raise AttributeError(f"Case {self.__dict__.get('name')!r} has no size {name!r}.") from None

    @property
    def shape(self) -> str:
        """The sizes in words."""
        return ", ".join(f"{name} {size:,}" for name, size in self.sizes.items())


TABLES = {"tables": 26, "rows": 100_000, "dim": 16, "batch": 512}
MANY_ROWS = {"tables": 4, "rows": 2_500_000, "dim": 16}
CRITEO = TABLES | {"numbers": 13}
HISTORIES = {"user": 600_000, "item": 400_000, "category": 20_000, "dim": 16, "batch": 512, "longest": 50}
WIDTHS = {"width": 36, "hidden": 36}

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("lookup", "lookup", TABLES | {"length": 1}),
        Case("lookup_20", "lookup", TABLES | {"length": 20}),
        Case("lookup_alone", "lookup_alone", TABLES | {"length": 1}),
        Case("lookup_20_alone", "lookup_alone", TABLES | {"length": 20}),
        Case("variable", "variable", MANY_ROWS | {"batch": 16_384, "length": 1}),
        Case("variable_4", "variable", MANY_ROWS | {"batch": 4_096, "length": 4}),
        Case("deepfm", "deepfm", CRITEO | {"rows": 10_000}),
        Case("dlrm", "dlrm", CRITEO),
        Case("din", "din", HISTORIES),
        Case("gru", "gru", {"batch": 1024, "length": 100} | WIDTHS, batches=2),
        Case("gru_128", "gru", {"batch": 128, "length": 50} | WIDTHS),
        Case("augru", "augru", {"batch": 1024, "length": 100} | WIDTHS, batches=2),
        Case("augru_128", "augru", {"batch": 128, "length": 50} | WIDTHS),
    )
}

_MOST_AT_TINY = {"rows": 1_000, "user": 1_000, "item": 1_000, "category": 100, "batch": 32, "length": 5}


def case_of(name: str, tiny: bool = False) -> Case:
    """The named case; `tiny` makes it small, for tests of its results."""
    case = CASES[name]
    if not tiny:
        return case
    return Case(name, case.kind, {size: min(n, _MOST_AT_TINY.get(size, n)) for size, n in case.sizes.items()}, batches=2)


def save(path: Path, batches: Sequence[Batch]) -> None:
    """Writes batches as one .npz: array `name` of batch i is "i/name"."""
    np.savez(path, **{f"{i}/{name}": array for i, batch in enumerate(batches) for name, array in batch.items()})


def load(path: Path | str) -> list[Batch]:
    """Reads what `save` has written."""
    batches: dict[int, Batch] = {}
    with np.load(path, allow_pickle=False) as file:
        for key in file.files:
            number, _, name = key.partition("/")
            batches.setdefault(int(number), {})[name] = file[key]
    return [batches[i] for i in range(len(batches))]


def first_table(name: object, rows: int, dim: int) -> np.ndarray:
    """The initial weights of an embedding table, the same on every side: float32 [rows, dim], normal, deviation 0.05."""
    return np.float32(0.05) * _generator(f"table/{name}").standard_normal((rows, dim), dtype=np.float32)


def first_kernel(name: str, inputs: int, outputs: int) -> np.ndarray:
    """The initial weights of a dense layer, the same on every side: float32 [inputs, outputs], Glorot-uniform."""
    limit = np.float32(np.sqrt(6.0 / (inputs + outputs)))
    return limit * (2 * _generator(f"kernel/{name}").random((inputs, outputs), dtype=np.float32) - 1)


def gru_weights(case: Case) -> list[np.ndarray]:
    """gates_kernel [C + H, 2H], gates_bias [2H], candidate_kernel [C + H, H], candidate_bias [H], as `ctrlab.ops.gru` takes."""
    joined, hidden = case.width + case.hidden, case.hidden
    return [
        first_kernel("gates", joined, 2 * hidden),
        np.ones(2 * hidden, np.float32),
        first_kernel("candidate", joined, hidden),
        np.zeros(hidden, np.float32),
    ]


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng([SEED, zlib.crc32(name.encode())])
