"""Three workers that sum their gradients around a ring; and a step that gets shorter until its exchanges outgrow it."""

from __future__ import annotations

import itertools

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, ORANGE, Figure

WORKERS = 3
VALUES = ((1, 2, 3), (10, 20, 30), (100, 200, 300))
CELL = 66


def bars() -> Figure:
    """The parts of a step for 1 to 16 workers: drawn for one set of numbers."""
    figure = Figure(740, 260, "A step with 1, 2, 4, 8 and 16 workers: compute, all-reduce and exchange")
    compute, chunk, message, rows = 40.0, 5.0, 0.5, 3.0
    lanes = {}
    for workers in (1, 2, 4, 8, 16):
        away, steps = (workers - 1) / workers, 2 * (workers - 1)
        own = 1 + compute / workers
        reduced = own + 2 * away * chunk + steps * message
        exchanged = reduced + away * rows + (workers - 1) * message
        bars = [(0, own, "compute" if workers < 4 else "", BLUE)]
        if workers > 1:
            bars += [(own, reduced, "all-reduce" if workers > 2 else "", ORANGE)]
            bars += [(reduced, exchanged, "exchange" if workers > 4 else "", GREEN)]
        lanes[f"{workers} worker{'s' * (workers > 1)}"] = bars
    figure.timeline(110, 14, 590, lanes, end=45, lane=40)
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
