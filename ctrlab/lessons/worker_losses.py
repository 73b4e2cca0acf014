"""Compares losses of one process and of several workers; only the first steps are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctrlab.training.equality import TOLERANCE

JUDGED = 8
"""Number of first steps in which two losses must agree within the tolerance. Sums in another order round differently, and
training amplifies that.
"""


def draw_difference(chart, losses: Mapping[str, Sequence[float]]) -> None:
    """The relative difference of two curves, and the tolerance in the steps that are judged."""
    (_, first), (name, second) = losses.items()
    for step, (one, two) in enumerate(zip(first, second)):
        chart.add(name, step, max(abs(two / one - 1), 1e-9))
        if step < JUDGED:
            chart.add("tolerance, as far as judged", step, TOLERANCE)


def judged(losses: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """The steps of the curves that a gate judges."""
    return {name: curve[:JUDGED] for name, curve in losses.items()}
