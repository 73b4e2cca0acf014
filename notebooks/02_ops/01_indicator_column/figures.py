"""Drop the one-hot: a product with a one-hot matrix is a row that is read."""

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, Figure, Grid, Point

WEIGHTS = (0.4, 0.1, 0.7, 0.2, 0.9, 0.3)
IDS = (2, 4)


def one_hot_to_gather() -> Animation:
    """Two ids pick their weights: first through a one-hot matrix, then by reading the table."""
    shown = "The sum of the weights of ids 2 and 4, first with a one-hot matrix, then by reading two rows"
    frames = [_frame(shown, stage) for stage in range(6)]
    captions = (
        "A column holds one weight per id, in a table of V = 6 rows. One example has the ids 2 and 4. "
        "The model needs the sum of their weights.",
        "tf.one_hot writes V numbers for each id. All of them are 0 but one. With V = 10,000, it writes 10,000 numbers per id.",
        "reduce_sum reads all of them again, and writes V more: the multi-hot row of the example.",
        "The matrix multiplication takes V products. Four of these six are a multiplication by 0.",
        "Only the weights that meet a 1 count. The ids themselves say which ones these are.",
        "So read these two rows and add them: a gather and a sum. Two reads, one addition, whatever V is.",
    )
    return Animation(frames, captions)


def _frame(title: str, stage: int) -> Figure:
    figure = Figure(700, 250, title)
    ids = figure.table(40, 90, [[i] for i in IDS], name="ids", cell=(40, 28), marked={0: BLUE, 1: BLUE})
    counted = stage >= 4
    marked = dict.fromkeys(IDS, GREEN if counted else "")
    weights = figure.table(
        520, 60, [[w] for w in WEIGHTS], ids=range(6), name="weights [V]", cell=(52, 26), marked=marked if counted else {}
    )
    if stage in (1, 2, 3):
        colour = ORANGE if stage == 1 else GREY
        rows = [[int(i == j) for j in range(6)] for i in IDS]
        hot = figure.table(160, 90, rows, name="one_hot [L, V]", cell=(30, 28), marked={0: colour, 1: colour})
        for i in range(2):
            figure.arrow(ids.row(i).right, hot.row(i).left)
    if stage in (2, 3):
        row = [[int(j in IDS) for j in range(6)]]
        multi = figure.table(160, 196, row, name="multi_hot [V]", cell=(30, 28), marked={0: ORANGE})
        last = hot.cell(1, 5)
        figure.arrow(last.bottom, (last.bottom[0], multi.y))
        if stage == 3:
            for j in range(6):
                figure.arrow(multi.row(0).right, _beside(weights, j), colour=GREEN if j in IDS else GREY, dashed=j not in IDS)
    if stage >= 4:
        for i, row in enumerate(IDS):
            figure.arrow(ids.row(i).right, _beside(weights, row), "" if stage == 4 else f"read row {row}", colour=GREEN)
    if stage in (3, 5):
        total = figure.box(620, 124, 64, 30, f"{sum(WEIGHTS[i] for i in IDS):.1f}", colour=GREEN, code=True)
        figure.arrow((weights.whole.right[0], 139), total.left)
        figure.text(652, 112, "sum", faint=True)
    return figure


def _beside(weights: Grid, row: int) -> Point:
    """The point left of a row's id."""
    x, y = weights.row(row).left
    return x - 24, y
