"""One lookup for all columns, and the merge of equal ids with a bitmap."""

from __future__ import annotations

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, Figure, Place

IDS = (5, 1, 5, 3, 1, 5)
GRADIENTS = (1, 2, 3, 4, 5, 6)
ROWS = 8
SUMS = {i: sum(g for j, g in zip(IDS, GRADIENTS) if j == i) for i in sorted(set(IDS))}


def columns() -> Figure:
    """A gather, a mean and a concat for each column; then one op."""
    figure = Figure(740, 330, "Stock: several ops per column. Fused: one op reads all tables and writes the towers' input")
    figure.text(20, 14, "stock: ops for each column", anchor="start", bold=True)
    side = figure.box(500, 62, 90, 80, "concat")
    for n, (name, pools) in enumerate((("user id", False), ("cuisines", True), ("24 more", False))):
        y = 44 + 44 * n
        box = figure.box(20, y, 120, 30, name, colour=BLUE)
        box = _next(figure, box, 180, "gather")
        if pools:
            box = _next(figure, box, 330, "mean")
        figure.arrow(box.right, (side.x, min(max(box.right[1], 72), 132)))
    towers = figure.box(640, 62, 80, 80, "towers", colour=GREY)
    figure.arrow(side.right, towers.left)
    figure.text(20, 204, "fused: one op for all columns", anchor="start", bold=True)
    ids = figure.box(20, 232, 120, 66, "the ids of\n26 columns", colour=BLUE)
    op = figure.box(230, 232, 260, 66, "look up: read each row, add up,\nwrite to its final place", colour=GREEN)
    towers = figure.box(640, 232, 80, 66, "towers", colour=GREY)
    figure.arrow(ids.right, op.left)
    figure.arrow(op.right, towers.left)
    return figure


def _next(figure: Figure, before: Place, x: float, label: str) -> Place:
    box = figure.box(x, before.y, 110, before.height, label, colour=ORANGE)
    figure.arrow(before.right, box.left)
    return box


def merge() -> Animation:
    """Six gradient rows of three ids become three rows: mark, count, add."""
    frames = [
        (
            "Six gradient rows came back, for ids 5, 1, 5, 3, 1 and 5. The table has V = 8 rows. A bitmap has one bit per "
            "table row, all 0.",
            _merge_frame(marked=0),
        ),
        ("Mark: the first id is 5, so bit 5 becomes 1. Nothing is compared, sorted or hashed.", _merge_frame(marked=1)),
        ("Id 1 sets bit 1. Then id 5 comes again: its bit is 1 already, and stays 1.", _merge_frame(marked=3)),
        ("After all six ids, three bits are 1. So three different ids came.", _merge_frame(marked=6)),
        (
            "Count: an id's place is the number of ones below its bit: none below bit 1, one below bit 3, two below bit 5.",
            _merge_frame(marked=6, places=True),
        ),
        (
            "Add: the first gradient row has id 5, so it is added at place 2.",
            _merge_frame(marked=6, places=True, added=1),
        ),
        ("Half of the rows are added: 1 + 3 for id 5, and 2 for id 1.", _merge_frame(marked=6, places=True, added=3)),
        (
            "All are added, and the ids stand in ascending order. The optimizer steps three table rows, each one once.",
            _merge_frame(marked=6, places=True, added=6),
        ),
    ]
    return Animation([figure for _, figure in frames], [caption for caption, _ in frames], 3.5)


def _merge_frame(marked: int, places: bool = False, added: int = 0) -> Figure:
    """`marked` ids have set their bits, `added` gradient rows are in the sums."""
    figure = Figure(740, 310, "Gradient rows of equal ids are added up through a bitmap")
    now = added - 1 if places else marked - 1
    rows = [[i, g] for i, g in zip(IDS, GRADIENTS)]
    came = figure.table(30, 110, rows, header=("id", "gradient"), cell=(70, 30), marked={now: BLUE} if now >= 0 else {})
    seen = set(IDS[:marked])
    bits = figure.table(
        290,
        60,
        [[int(v in seen) for v in range(ROWS)]],
        header=range(ROWS),
        name="bitmap [V]",
        cell=(46, 30),
        marked={(0, v): GREEN for v in seen},
    )
    if marked and not places:
        figure.arrow(came.row(now).right, bits.cell(0, IDS[now]).bottom, colour=BLUE)
    if places:
        sums = {i: sum(g for j, g in zip(IDS[:added], GRADIENTS) if j == i) for i in SUMS}
        result = figure.table(
            440,
            170,
            [[place, i, sums[i]] for place, i in enumerate(SUMS)],
            header=("place", "id", "sum"),
            cell=(70, 30),
            marked={place: GREEN for place in range(len(SUMS))},
        )
        if added:
            figure.arrow(came.row(now).right, result.row(list(SUMS).index(IDS[now])).left, colour=BLUE)
        for place, i in enumerate(SUMS):
            x, y = bits.cell(0, i).bottom
            figure.text(x, y + 14, f"place {place}", size=12)
    return figure
