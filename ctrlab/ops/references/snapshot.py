"""The definition of `ctrlab.ops.snapshot`, in NumPy, float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def reference(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> None:
    """The definition in NumPy.

    >>> target = np.zeros(2)
    >>> reference([np.array([1.0, 2.0])], [target])
    >>> target
    array([1., 2.])
    """
    for source, target in zip(sources, targets, strict=True):
        target[...] = source
