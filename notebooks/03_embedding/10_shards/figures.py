"""A table that is split over two workers, and the way of ids, rows and gradients between them."""

from __future__ import annotations

from collections.abc import Sequence

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREY, ORANGE, PAD, Figure, Place

COLOURS = (BLUE, ORANGE)  # of worker 0 and worker 1, and of the keys that each of them owns
BATCHES = ((7, 4, 7, 2), (7, 9, 4))
SHARDS = ((2, 4, 8), (5, 7, 9))
ASKED = (((2, 4), (7,)), ((4,), (7, 9)))  # by worker, by owner
LEFT, WIDE = (40, 420), 280


def split() -> Figure:
    """One table in one process, and the same rows in the shards of two workers."""
    figure = Figure(740, 250, "A table of six rows in one process, and split over two workers by key mod 2")
    keys = sorted(SHARDS[0] + SHARDS[1])
    owner = {key: w for w, shard in enumerate(SHARDS) for key in shard}
    figure.table(
        90, 60, [["row"] * 3 for _ in keys], ids=[f"key {key}" for key in keys], name="one process",
        marked={n: COLOURS[owner[key]] for n, key in enumerate(keys)}, cell=(40, 26),
    )  # fmt: skip
    for w, shard in enumerate(SHARDS):
        x = 390 + 200 * w
        rows = [["row"] * 3 for _ in shard]
        marked = dict.fromkeys(range(3), COLOURS[w])
        figure.table(x, 60, rows, ids=[f"key {key}" for key in shard], name=f"worker {w}", marked=marked, cell=(40, 26))
    figure.arrow((240, 138), (320, 138), "key mod 2")
    figure.text(480, 170, "Each row is with one worker, its owner.", size=12, faint=True)
    return figure


def _keys(figure: Figure, x: float, y: float, keys: Sequence[int], colour: str = "") -> Place:
    """Keys in boxes, side by side; its place."""
    for n, key in enumerate(keys):
        owner = COLOURS[key % 2] if colour == "" else colour
        figure.box(x + 40 * n, y, 36, 26, key, colour=owner, code=True)
    return Place(x, y, 40 * len(keys) - 4, 26)


def _frame(title: str, upto: int) -> Figure:
    """The state after this number of steps: 1 distinct keys, 2 keys at their owner, 3 rows read, 4 rows back."""
    figure = Figure(740, 330, title)
    asks: dict[tuple[int, int], Place] = {}
    for w, x in enumerate(LEFT):
        figure.text(x, 18, f"worker {w}", anchor="start", bold=True)
        figure.text(x, 45, "ids of its examples", anchor="start", size=12, faint=True)
        _keys(figure, x, 58, BATCHES[w])
        if upto < 1:
            continue
        for owner in range(2):
            at = x + 150 * owner
            figure.text(at, 106, f"for worker {owner}", anchor="start", size=12, faint=True)
            asks[w, owner] = _keys(figure, at, 118, ASKED[w][owner])
    for owner, x in enumerate(LEFT if upto >= 2 else ()):
        for w in range(2):
            at = _keys(figure, x + 150 * w, 196, ASKED[w][owner], GREY)
            figure.arrow(asks[w, owner].bottom, at.top, colour=COLOURS[owner], dashed=w == owner)
        figure.text(x, 236, "what it is asked for", anchor="start", size=12, faint=True)
    for owner, x in enumerate(LEFT if upto >= 3 else ()):
        rows = "each of these rows is read here" if upto == 3 else "their rows go back the same way"
        figure.box(x, 254, WIDE, 30, rows, colour=COLOURS[owner])
    if upto >= 4:
        for w, x in enumerate(LEFT):
            figure.text(x, 306, f"each id of worker {w} has its row", anchor="start", size=12)
    return figure


def exchange() -> Animation:
    """Ids go to their owners, rows come back, and the gradients go to the owners."""
    said = {
        "The batch of worker 0 has the id 7 twice. The colour says who has its row.": 0,
        "Each worker takes its distinct keys, and sorts them by owner. Key 7 is there once.": 1,
        "All-to-all: each worker sends each other one its keys. Dashed is what stays in a worker.": 2,
        "Each owner reads the rows that it is asked for. Worker 1 reads the row of key 7 for both.": 3,
        "All-to-all again: the rows go back. The row of key 7 is put in two places of worker 0's batch.": 4,
    }
    frames = [_frame(caption, upto) for caption, upto in said.items()]
    return Animation(
        [*frames, _way_back()], [*said, "Both workers send a gradient for key 7. Its owner adds them, and takes one step."], 3.0
    )


def _way_back() -> Figure:
    figure = Figure(740, 330, "The gradients of key 7 from both workers are added at the owner")
    for w, x in enumerate(LEFT):
        figure.text(x, 18, f"worker {w}", anchor="start", bold=True)
        figure.text(x, 45, "gradients of its distinct keys", anchor="start", size=12, faint=True)
        place = {}
        keys = [key for part in ASKED[w] for key in part]
        for n, key in enumerate(keys):
            place[key] = figure.box(
                x + 62 * n, 58, 56, 26, f"{key}: {3 - 2 * w if key == 7 else PAD}", colour=COLOURS[key % 2], code=True
            )
        figure.arrow(place[7].bottom, (500, 150), colour=COLOURS[1], dashed=w == 1)
    figure.box(LEFT[1], 152, WIDE, 30, "key 7: 3 + 1 = 4", colour=COLOURS[1], code=True)
    figure.arrow((500, 182), (500, 214))
    figure.box(LEFT[1], 216, WIDE, 30, "one step of row 7", colour=COLOURS[1])
    return figure
