"""The definition of `ctrlab.ops.snapshot`, in NumPy, float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctrlab.ops.references.arrays import Variable, normal
from ctrlab.profiling.work import Work


def reference(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> None:
    """The definition in NumPy.

    >>> target = np.zeros(2)
    >>> reference([np.array([1.0, 2.0])], [target])
    >>> target
    array([1., 2.])
    """
    for source, target in zip(sources, targets, strict=True):
        target[...] = source


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    def case(*shapes):
        sources = [normal(rng, *shape).view(Variable) for shape in shapes]
        return sources, [np.zeros_like(source) for source in sources]

    step = np.array(7).view(Variable), np.array(0).view(Variable)
    return {
        "random": case((5, 3), (7,), (2, 3, 4)),
        "a count": tuple([number] for number in step),
        "nothing to copy in one": case((0, 3), (2,)),
    }


def work(numbers: float) -> Work:
    """Float32 numbers, each read once and written once."""
    return Work(bytes=2 * 4.0 * numbers)
