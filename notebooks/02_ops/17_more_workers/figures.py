"""Three workers that sum their gradients around a ring; and a step that gets shorter until its all-reduce outgrows it."""

from __future__ import annotations

import itertools

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, ORANGE, SKY, Figure
from ctrlab.lessons.figures.ring import all_reduce

EXAMPLES, RATE = 4_096, 1_000
"""Another batch and another link, in Mbit/s, than those of the lesson's prediction: the bars don't give it away."""
STEPS = {
    1: (83.1, 0.0, 0.0, 0.0),
    2: (44.2, 43.0, 15.5, 22.7),
    4: (24.8, 30.1, 23.5, 22.2),
    8: (15.1, 20.7, 28.1, 15.9),
    16: (10.3, 15.0, 31.6, 10.7),
    32: (7.8, 11.0, 35.8, 6.4),
    64: (6.6, 8.8, 42.7, 3.9),
}
"""{workers: milliseconds of `PARTS`}, as the lesson simulates them of a recorded worker."""
PARTS = {"compute": BLUE, "work for the exchange": SKY, "all-reduce": ORANGE, "exchange": GREEN}


def bars() -> Figure:
    """The parts of a step for 1 to 64 workers."""
    figure = Figure(740, 300, f"Simulated steps of DLRM: {EXAMPLES:,} examples, {RATE:,} Mbit/s")
    lanes = {}
    for workers, parts in STEPS.items():
        ends = [0.0, *itertools.accumulate(parts)]
        bars = [(*span, "", colour) for span, colour in zip(itertools.pairwise(ends), PARTS.values()) if span[0] < span[1]]
        lanes[f"{workers} worker{'s' * (workers > 1)}"] = bars
    for left, (name, colour) in zip((110, 220, 400, 510), PARTS.items()):
        figure.box(left, 10, 14, 14, colour=colour)
        figure.text(left + 20, 17, name, anchor="start", size=12)
    said = f"a recorded machine, {EXAMPLES:,} examples per step, links of {RATE:,} Mbit/s"
    figure.text(110, 281, said, anchor="start", size=12, faint=True)
    figure.timeline(110, 36, 590, lanes, end=130, lane=32)
    return figure


def ring() -> Animation:
    """Three workers, three numbers each: every number is summed on its way around, then the sums go around."""
    return all_reduce()
