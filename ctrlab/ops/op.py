"""What an operation is: what it computes, and the ways to compute it, all under one signature.

    definition   a module of `ctrlab.ops.references`, in NumPy float64: the reference, its gradient, cases, the least work
    baseline     what a competent TensorFlow user writes: the library's own code
    best_stock   the fastest way found with TensorFlow's own ops, where that is another one
    fused        ours, compiled, with its gradient

Whoever needs an operation asks `pick` for its way; nobody else chooses.
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
        name: for people.
        rung: the optimization that turns it on.
        part: the part of a model that its ops are marked as, in profiles and charts; None: what calls it is marked.
        definition, baseline, fused, best_stock: see the module; `best_stock` is None where the baseline is the best.
        others: {name: way} of ways that lessons and benches show beside these.
        differentiable: how many of its outputs, from the first on, have a gradient; None: all.
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
        """What every way computes."""
        return self.definition.reference

    @property
    def reference_gradient(self) -> Callable | None:
        """Of the reference's outputs; None where tests differentiate a way in float64 instead."""
        return getattr(self.definition, "reference_gradient", None)

    def cases(self, rng: np.random.Generator) -> dict[str, tuple]:
        """{name: arguments}, random, odd and empty, on which every way is held against the reference; in NumPy, with the twins of
        `ctrlab.ops.references.arrays`."""
        return self.definition.cases(rng)

    def work(self, *sizes, **options) -> Work:
        """What no way can leave out, forward and backward."""
        return self.definition.work(*sizes, **options)

    def pick(self, rungs: Collection[str]) -> Callable:
        """The way that these optimizations want.

        Raises:
            NativeLibraryError: there is no compiled library: here, not in the middle of a trace, where its sentence gets lost.
        """
        stock = self.best_stock if STOCK.name in rungs and self.best_stock else self.baseline
        way = self.fused if self.on(rungs) else stock
        return part(self.part)(way) if self.part else way

    def on(self, rungs: Collection[str]) -> bool:
        """Whether these optimizations want ours: for a layer whose baseline is Keras's own. Raises as `pick`."""
        if self.rung in rungs:
            _native.library()
        return self.rung in rungs

    @property
    def ways(self) -> dict[str, Callable]:
        """{name: way} in TensorFlow: the baseline, others, the best of stock, ours."""
        stock = {"stock": self.best_stock} if self.best_stock else {}
        return {"baseline": self.baseline} | self.others | stock | {"fused": self.fused}

    @property
    def benches(self) -> dict[str, Callable]:
        """{name: maker of a `Bench`}: the BENCHES of the module of `ctrlab.ops.benches` that is named as the definition."""
        name = self.definition.__name__.rpartition(".")[2]
        return importlib.import_module(f"ctrlab.ops.benches.{name}").BENCHES
