"""Trains two or more models on the same batches, and charts the differences of their losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from ctrlab.errors import CtrlabError

LEAST = 1e-9
"""The value at which equal losses are drawn, because a logarithmic axis has no 0."""

Side = tuple[object, object, Callable]


def train(
    sides: Mapping[str, Side], batches: Iterable[tuple], *, rtol: float = 1e-5, same_state_every: int = 2
) -> dict[str, list[float]]:
    """Takes the same steps with each model. The chart's curves are |loss - baseline's| / baseline's loss, beside the tolerance.

    If a loss is not finite, the curve has a gap, and a printed line says so. The other models are reset to the baseline's weights
    and optimizer state before every second step, because in long runs rounding makes the losses diverge. The step in between
    shows that the weights change equally.

    Args:
        sides: {name: (model, optimizer, step)}, the baseline first; `step(features, labels)` returns the loss.
        batches: batches of (features, labels).
        rtol: the tolerance that is drawn.
        same_state_every: 1 resets the others before each step.
    Returns:
        The losses of each model, by name, as many as `batches`.
    """
    from ctrlab.profiling import charts
    from ctrlab.training import copy_state

    if len(sides) < 2:
        raise CtrlabError(f"Models are compared side by side, so there are at least two; {len(sides)} was given.")
    baseline, *others = sides
    losses = {name: [] for name in sides}
    note = f"same weights, same batches; equal losses are drawn at {LEAST:g}, a gap is no finite number"
    with charts.LiveChart(f"Loss: difference from {baseline}", "relative difference", x="step", note=note, log=True) as chart:
        for number, batch in enumerate(batches):
            if number % same_state_every == 0:
                copy_state(sides[baseline][:2], *(sides[name][:2] for name in others))
            for name, (_, _, step) in sides.items():
                losses[name].append(float(step(*batch)))
            for name in others:
                chart.add(name, number, _apart(losses[baseline][-1], losses[name][-1]))
            chart.add("tolerance", number, rtol)
    for name, curve in losses.items():
        odd = [number for number, loss in enumerate(curve) if not math.isfinite(loss)]
        if odd:
            print(f"{name}'s loss is not finite in {len(odd)} of {len(curve)} steps, first in step {odd[0]}: {curve[odd[0]]}.")
    if curve := losses[baseline]:
        print(f"{baseline}'s loss went from {curve[0]:.3f} to {curve[-1]:.3f} in {len(curve)} steps.")
    return losses


def _apart(expected: float, received: float) -> float:
    """|received - expected| / |expected| on an axis that begins at LEAST; NaN, drawn as a gap, where it is not finite."""
    if received == expected and math.isfinite(expected):
        return LEAST
    relative = abs(received - expected) / abs(expected) if expected else math.nan
    return max(LEAST, relative) if math.isfinite(relative) else math.nan
