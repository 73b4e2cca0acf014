"""Run a GRU in one op: the order in which positions are computed."""

from collections.abc import Collection
from itertools import chain

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, PAD, Figure

LENGTHS = (5, 4, 2, 1)
EVENTS = [(b, t) for b, length in enumerate(LENGTHS) for t in range(length)]
STOCK = "for t in range(T):\n  for b in range(B):\n    cell(b, t)"
OURS = "for block in blocks:\n  for t in range(longest):\n    for b in block:\n      cell(b, t)"


def loop_orders() -> Animation:
    """The same positions, first all examples one step at a time, then a block of examples through all its steps."""
    steps = [[(b, t) for b in range(4)] for t in range(5)]
    blocks = [[(b, t) for b in block for t in range(LENGTHS[block[0]])] for block in ((0, 1), (2, 3))]
    frames = [
        _frame("", EVENTS, [], BLUE),
        *(_frame(STOCK, steps[t], [*chain(*steps[:t])], ORANGE) for t in (0, 1, 4)),
        *(_frame(OURS, blocks[k], [*chain(*blocks[:k])], GREEN) for k in (0, 1)),
    ]
    captions = (
        "Four histories, longest first. Each cell is one position: it needs the state of the cell on its left. Examples do not "
        "need each other.",
        "The stock loop: steps outside. All examples take step 1, in about a dozen ops. After each op, all threads wait.",
        "Step 2 reads all weights and all states again. The fourth example has ended, but the loop computes its padding, too.",
        f"The longest history decides: {4 * 5} positions are computed for {len(EVENTS)} events.",
        "The other order: blocks outside. One thread takes two examples through all their steps. Their states and the weights "
        "stay in its core's cache.",
        f"The next block is short, so it ends after two steps: {10 + 4} positions in all. Another thread can run it at the same "
        "time. Threads wait for each other once, at the end.",
    )
    return Animation(frames, captions)


def _frame(code: str, now: Collection[tuple[int, int]], done: Collection[tuple[int, int]], colour: str) -> Figure:
    figure = Figure(700, 250, "The two loop orders of a GRU over four histories")
    rows = [[f"h{t + 1}" if t < length else PAD for t in range(max(LENGTHS))] for length in LENGTHS]
    figure.tensor(60, 50, rows, axes=("B", "T"), cell=(60, 38), marked=dict.fromkeys(done, GREY) | dict.fromkeys(now, colour))
    if code:
        figure.text(410, 70, code, anchor="start", code=True)
        figure.text(60, 226, f"{len(done) + len(now)} positions so far", anchor="start", bold=True)
    return figure
