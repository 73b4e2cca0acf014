"""Run a GRU in one op: the order in which positions are computed."""

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, PAD, Figure

LENGTHS = (5, 4, 2, 1)
BLOCK = 2


def loop_orders() -> Animation:
    """The same positions, first all examples one step at a time, then a block of examples through all its steps."""
    steps = [(f"for t: step {t + 1}", [(b, t) for b in range(4)], t + 1) for t in range(3)]
    blocks = [
        (f"for block: block {k + 1}", [(b, t) for b in (2 * k, 2 * k + 1) for t in range(LENGTHS[2 * k])], k + 1)
        for k in range(2)
    ]
    frames = [
        _frame("four histories, longest first", [], []),
        *(_frame(name, cells, [c for _, before, _ in steps[:i] for c in before]) for i, (name, cells, _) in enumerate(steps)),
        *(
            _frame(name, cells, [c for _, before, _ in blocks[:i] for c in before], blocked=True)
            for i, (name, cells, _) in enumerate(blocks)
        ),
    ]
    captions = (
        "Each cell is one position: it needs the state of the cell on its left. Rows do not need each other.",
        "Stock order: the loop over steps is outside. All examples take step 1, in a dozen ops; then all threads meet.",
        "Step 2: the weights and all states are read again. The fourth example has ended, and is computed all the same.",
        "Step 3: two of four rows are padding. There are as many steps as the longest history has events.",
        "Our order: the loop over blocks is outside. One thread takes two rows through all their steps. "
        "Their states and the weights stay in its cache.",
        "The next block has shorter rows, so it ends after two steps. Another thread can run it at the same time: "
        "threads meet once, at the end.",
    )
    return Animation(frames, captions)


def _frame(order: str, now: list[tuple[int, int]], done: list[tuple[int, int]], blocked: bool = False) -> Figure:
    figure = Figure(640, 270, "The two loop orders of a GRU over four histories")
    rows = [[f"h{t + 1}" if t < n else PAD for t in range(max(LENGTHS))] for n in LENGTHS]
    colour = GREEN if blocked else ORANGE
    marked = dict.fromkeys(done, GREY) | dict.fromkeys(now, colour)
    if not now:
        marked = {(b, t): BLUE for b, n in enumerate(LENGTHS) for t in range(n)}
    grid = figure.tensor(160, 60, rows, axes=("B", "T"), cell=(60, 38), marked=marked)
    if now and blocked:
        block = grid.row(now[0][0])
        figure.arrow((block.left[0], block.bottom[1]), (block.left[0] + 60 * LENGTHS[now[0][0]], block.bottom[1]), colour=GREEN)
    elif now:
        column = grid.cell(0, now[0][1])
        figure.arrow((column.centre[0], grid.whole.bottom[1] + 2), (column.centre[0], grid.whole.bottom[1] + 20), colour=ORANGE)
    figure.text(310, 246, order, code=bool(now), bold=True)
    return figure
