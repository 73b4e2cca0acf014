"""An animation of a ring all-reduce: three workers that sum their gradients."""

from __future__ import annotations

import itertools

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import GREEN, ORANGE, Figure

WORKERS = 3
VALUES = ((1, 2, 3), (10, 20, 30), (100, 200, 300))
CELL = 66


def all_reduce() -> Animation:
    """Gradients of three numbers, one chunk each; a marked chunk has just arrived."""
    state = [list(values) for values in VALUES]
    frames = [(_frame(state, {}), "Each worker has a gradient of three numbers, cut into three chunks. All need the sums.")]
    for turn in range(2 * (WORKERS - 1)):
        came, adds = {}, turn < WORKERS - 1
        sent = [((w - turn) % WORKERS, state[w][(w - turn) % WORKERS]) for w in range(WORKERS)]
        for w, (chunk, value) in enumerate(sent):
            state[(w + 1) % WORKERS][chunk] = value + adds * state[(w + 1) % WORKERS][chunk]
            came[(w + 1) % WORKERS] = chunk
        says = "one chunk to the next worker, which adds it" if adds else "a whole sum to the next worker, which takes it over"
        done = {WORKERS - 2: " Now each worker has the whole sum of one chunk.", 2 * WORKERS - 3: " All have all sums."}
        frames.append((_frame(state, came), f"Each sends {says}.{done.get(turn, '')}"))
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
