"""An operation: what it computes, and the ways to compute it, all under one signature.

    definition   a module of `ctrlab.ops.references` in NumPy float64: reference, gradient, cases and least work
    baseline     what a competent TensorFlow user writes: the library's own code
    best_stock   the fastest way found with TensorFlow's own ops, if it is not the baseline
    fused        ours, compiled, with its gradient

Models choose the way with `pick`; no other code chooses.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np

from ctrlab import _native
from ctrlab.optimizations import RUNGS, STOCK
from ctrlab.profiling.parts import declare, part
from ctrlab.profiling.work import Work


@dataclass(frozen=True)
class Op:
    """One operation.

    Attributes:
        name: shown to people.
        rung: the optimization that selects `fused`.
        part: the part of a model to which profiles and charts attribute its ops; None: the part of its caller.
        definition, baseline, fused, best_stock: see the module; `best_stock` is None if the baseline is the best.
        others: {name: way} of further ways for lessons and benches.
        differentiable: how many of its outputs, counted from the first, have a gradient; None: all.
    """

    name: str
    rung: str
    definition: ModuleType
    baseline: Callable
    fused: Callable
    part: str | None = None
    best_stock: Callable | None = None
    others: dict[str, Callable] = field(default_factory=dict)
    differentiable: int | None = None

    def __post_init__(self):
        if self.rung not in RUNGS:
            raise ValueError(f"An op belongs to a rung of the ladder; {self.name!r} names {self.rung!r}.")
        if self.part:
            declare(self.part)

    @property
    def reference(self) -> Callable:
        """The definition that every way computes."""
        return self.definition.reference

    @property
    def reference_gradient(self) -> Callable | None:
        """The gradient of the reference; None if tests differentiate a way in float64 instead."""
        return getattr(self.definition, "reference_gradient", None)

    def cases(self, rng: np.random.Generator) -> dict[str, tuple]:
        """{name: arguments} of random, odd and empty cases, on which tests compare every way with the reference. The arguments
        are NumPy arrays and the types in `ctrlab.ops.references.arrays`."""
        return self.definition.cases(rng)

    def work(self, *sizes, **options) -> Work:
        """The least work, forward and backward, that every way must do."""
        return self.definition.work(*sizes, **options)

    def pick(self, rungs: Collection[str]) -> Callable:
        """The way that these optimizations select.

        Raises:
            NativeLibraryError: there is no compiled library. It is raised here because a trace would hide the message.
        """
        stock = self.best_stock if STOCK.name in rungs and self.best_stock else self.baseline
        way = self.fused if self.on(rungs) else stock
        return part(self.part)(way) if self.part else way

    def on(self, rungs: Collection[str]) -> bool:
        """Whether these optimizations select `fused`, for a layer whose baseline is Keras's own. Raises as `pick` does."""
        if self.rung in rungs:
            _native.library()
        return self.rung in rungs

    @property
    def ways(self) -> dict[str, Callable]:
        """{name: way} in TensorFlow: the baseline, others, the best stock way, ours."""
        stock = {"stock": self.best_stock} if self.best_stock else {}
        return {"baseline": self.baseline} | self.others | stock | {"fused": self.fused}

    @property
    def benches(self) -> dict[str, Callable]:
        """{name: maker of a `Bench`}: the BENCHES of the module in `ctrlab.ops.benches` with the definition's name."""
        name = self.definition.__name__.rpartition(".")[2]
        return importlib.import_module(f"ctrlab.ops.benches.{name}").BENCHES
