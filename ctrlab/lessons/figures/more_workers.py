"""Three workers that sum their gradients around a ring; and a step that gets shorter until its all-reduce outgrows it."""

from __future__ import annotations

import itertools

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, ORANGE, SKY, Figure

WORKERS = 3
VALUES = ((1, 2, 3), (10, 20, 30), (100, 200, 300))
CELL = 66


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
    """Gradients of three numbers, one chunk each; a marked chunk has just arrived."""
    state = [list(values) for values in VALUES]
    frames = [(_frame(state, {}), "Each worker has a gradient of three numbers, cut into three chunks. All need the sums.")]
    for turn in range(WORKERS - 1):
        came = {}
        sent = [((w - turn) % WORKERS, state[w][(w - turn) % WORKERS]) for w in range(WORKERS)]
        for w, (chunk, value) in enumerate(sent):
            state[(w + 1) % WORKERS][chunk] += value
            came[(w + 1) % WORKERS] = chunk
        says = "Each sends one chunk to the next worker, which adds it."
        done = " Now each worker has the whole sum of one chunk." if turn == WORKERS - 2 else ""
        frames.append((_frame(state, came), says + done))
    for turn in range(WORKERS - 1):
        came = {}
        sent = [((w + 1 - turn) % WORKERS, state[w][(w + 1 - turn) % WORKERS]) for w in range(WORKERS)]
        for w, (chunk, value) in enumerate(sent):
            state[(w + 1) % WORKERS][chunk] = value
            came[(w + 1) % WORKERS] = chunk
        says = "Each sends a whole sum to the next worker, which takes it over."
        done = " All have all sums." if turn == WORKERS - 2 else ""
        frames.append((_frame(state, came), says + done))
    return Animation([figure for figure, _ in frames], [caption for _, caption in frames], 3.0)


def _frame(state: list[list[int]], came: dict[int, int]) -> Figure:
    figure = Figure(740, 190, "A ring all-reduce of three workers")
    places = []
    for w, values in enumerate(state):
        marked = {(0, came[w]): ORANGE} if w in came else {}
        marked |= {(0, c): GREEN for c, value in enumerate(values) if value == sum(v[c] for v in VALUES) and came.get(w) != c}
        grid = figure.table(20 + 240 * w, 60, [values], name=f"worker {w}", cell=(CELL, 34), marked=marked)
        places.append(grid.whole)
    for one, other in itertools.pairwise(places):
        figure.arrow(one.right, other.left)
    last, first = places[-1], places[0]
    figure.arrow(last.bottom, (last.centre[0], 140))
    figure.arrow((last.centre[0], 140), (first.centre[0], 140))
    figure.arrow((first.centre[0], 140), first.bottom)
    figure.text(20, 172, "orange: has just arrived; green: the whole sum", anchor="start", size=12, faint=True)
    return figure
