"""The embedding table: what a batch reads, and what a step moves."""

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, ORANGE, PINK, Figure, Grid

ROWS = ((0.0, 0.5), (1.0, 0.0), (0.5, 0.5), (0.0, 1.0), (0.0, -1.0))
READS = (1, 1, 3, 4)
GRADIENTS = ((0.0, -0.5), (0.0, -0.5), (-0.5, 0.0), (0.5, 0.0))
SUMS = {1: (0.0, -1.0), 3: (-0.5, 0.0), 4: (0.5, 0.0)}
PAIRS = ((3, 1, "0, p = 0.5, error -0.5", "1.5, p = 0.82"), (4, 0, "0, p = 0.5, error +0.5", "-1.5, p = 0.18"))
COLOURS = {1: BLUE, 3: ORANGE, 4: PINK}


def lookup() -> Figure:
    """Three ids read their rows of the table."""
    figure = Figure(700, 280, "A table with one short vector per id: the ids 7, 2 and 7 read line 7, line 2 and line 7")
    numbers = [[0.3, -0.1], [0.8, 0.2], [-0.4, 0.6], [0.1, 0.1], [-0.7, 0.3], [0.5, -0.9], [0.2, 0.4], [0.9, -0.6]]
    ids = figure.table(50, 100, [[7], [2], [7]], name="ids [B]", cell=(44, 30), marked={0: BLUE, 1: ORANGE, 2: BLUE})
    table = figure.table(280, 44, numbers, ids=range(8), name="table [V, D]", cell=(56, 26), marked={7: BLUE, 2: ORANGE})
    rows = figure.table(
        530, 100, [numbers[i] for i in (7, 2, 7)], name="rows [B, D]", cell=(56, 30), marked={0: BLUE, 1: ORANGE, 2: BLUE}
    )
    for place, row, colour in ((0, 7, BLUE), (1, 2, ORANGE), (2, 7, BLUE)):
        x, y = table.row(row).left
        figure.arrow(ids.row(place).right, (x - 24, y), colour=colour)
        figure.arrow(table.row(row).right, rows.row(place).left, colour=colour)
    figure.text(336, 268, "the other rows are not read", faint=True)
    return figure


def one_step() -> Animation:
    """The worked step of the lesson: rows are read, gradients of equal ids add up, the rows that were read move."""
    captions = (
        "The table has V = 5 rows of D = 2 numbers. The batch has two pairs. Item 3 followed item 1 (label 1). "
        "Item 4 did not follow item 1 (label 0).",
        "Look up: two pairs are four reads. Row 1 is read twice. Rows 0 and 2 are not read.",
        "Score: the dot product of each pair is 0, so p is 0.5. The error is p minus the label: -0.5 and +0.5.",
        "Backward: each read gets a gradient, the error times the partner's row. Row 1 has two of them.",
        "Equal ids add up: this is a segment sum. Three different ids were read, so there are three gradients.",
        "Step with learning rate 1: subtract the gradients. Rows 1, 3 and 4 move; all others keep every bit.",
        "Score again: 1 with 3 has 1.5, and 1 with 4 has -1.5. Items that followed each other now point the same way.",
    )
    return Animation([_frame(stage) for stage in range(len(captions))], captions, seconds=4)


def _frame(stage: int) -> Figure:
    figure = Figure(740, 270, "One training step on an embedding table of five rows, with two pairs of items")
    moved = stage >= 5
    rows = [[a - b for a, b in zip(row, SUMS.get(i, (0, 0)))] if moved else row for i, row in enumerate(ROWS)]
    read = COLOURS if stage >= 1 else {}
    table = figure.table(50, 50, _shown(rows), ids=range(5), name="table [V, D]", cell=(50, 26), marked=read)
    reads = _reads(figure, table) if 1 <= stage < 5 else None
    if 3 <= stage < 5:
        marked = {i: COLOURS[row] for i, row in enumerate(READS)}
        each = figure.table(400, 50, _shown(GRADIENTS), ids=READS, name="gradient per read", cell=(50, 26), marked=marked)
        for i in range(len(READS)):
            x, y = each.row(i).left
            figure.arrow(reads.row(i).right, (x - 20, y))
    if stage in (4, 5):
        marked = {i: colour for i, colour in enumerate(COLOURS.values())}
        sums = figure.table(590, 50, _shown(SUMS.values()), ids=SUMS, name="gradient per row", cell=(50, 26), marked=marked)
        if stage == 4:
            for i, row in enumerate(READS):
                x, y = sums.row(list(SUMS).index(row)).left
                figure.arrow(each.row(i).right, (x - 20, y), colour=COLOURS[row])
        else:
            for i, row in enumerate(SUMS):
                figure.arrow((570, sums.row(i).left[1]), table.row(row).right, colour=COLOURS[row])
    for i, (other, label, *answers) in enumerate(PAIRS):
        answer = {2: answers[0], 3: answers[0], 6: answers[1]}.get(stage)
        text = f"items 1 and {other}, label {label}" + (f":   score {answer}" if answer else "")
        figure.text(50, 216 + 26 * i, text, anchor="start", code=True)
    return figure


def _reads(figure: Figure, table: Grid) -> Grid:
    marked = {i: COLOURS[row] for i, row in enumerate(READS)}
    reads = figure.table(230, 50, _shown([ROWS[i] for i in READS]), ids=READS, name="rows read", cell=(50, 26), marked=marked)
    for i, row in enumerate(READS):
        x, y = reads.row(i).left
        figure.arrow(table.row(row).right, (x - 20, y), colour=COLOURS[row])
    return reads


def _shown(rows) -> list[list[str]]:
    return [[f"{number + 0.0:g}" for number in row] for row in rows]
