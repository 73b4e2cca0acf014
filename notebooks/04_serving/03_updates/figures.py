"""What a trainer publishes and a server takes, and how an update gets through the gate."""

from __future__ import annotations

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, RED, Figure

Bars = list[tuple[float, float, str, str]]
LANES = ("request A", "request B", "request C", "request D", "the update")


def stream() -> Figure:
    """The trainer writes a version and updates; the server serves a version, and takes each update."""
    figure = Figure(740, 236, "A trainer publishes a version and updates, and a server follows")
    trainer = figure.box(20, 40, 120, 60, "trainer", colour=BLUE)
    figure.text(300, 16, "the folder models/ctr", bold=True)
    version = figure.box(190, 37, 220, 66, "version 7\ngraph and all weights", colour=GREEN)
    updates = [figure.box(190 + 78 * (n - 1), 136, 64, 56, f"update\n{n}", colour=ORANGE) for n in (1, 2, 3)]
    figure.text(300, 214, "changed rows, removed keys, all dense weights", size=12, faint=True)
    server = figure.box(600, 40, 120, 60, "server", colour=BLUE)
    figure.arrow(trainer.right, version.left)
    figure.arrow(version.right, server.left)
    figure.text(505, 42, "loaded beside\nthe old version", size=12)
    figure.arrow(trainer.bottom, updates[0].left, elbow="down")
    figure.arrow(updates[0].right, updates[1].left)
    figure.arrow(updates[1].right, updates[2].left)
    figure.arrow(updates[2].right, server.bottom, elbow="across")
    figure.text(530, 178, "changed in place", size=12)
    return figure


def gate() -> Animation:
    """An update is prepared, closes the gate, waits, commits and opens it."""
    inside = {"request A": [(0, 4, "inside", GREEN)], "request B": [(1, 6, "inside", GREEN)]}
    prepared = [(0.5, 3, "prepares", BLUE)]
    waits = [*prepared, (3, 6, "waits", GREY)]
    done = [*waits, (6, 7, "commits", RED)]
    frames: list[tuple[str, dict[str, Bars]]] = [
        (
            "Two requests are inside: they do not wait for each other. The update reads and checks its file outside.",
            inside | {"the update": prepared},
        ),
        (
            "The update closes the gate. Request A and request B may finish. The update waits for them.",
            inside | {"the update": waits},
        ),
        (
            "Request C comes while the update waits. It stays outside: if it went in, the next one would, too, and the update "
            "would starve.",
            inside | {"request C": [(4.5, 6, "waits", GREY)], "the update": waits},
        ),
        (
            "Request B leaves, and nobody is inside. The update changes rows and dense weights: only this pause is seen by "
            "requests.",
            inside | {"request C": [(4.5, 7, "waits", GREY)], "request D": [(6.3, 7, "", GREY)], "the update": done},
        ),
        (
            "The gate opens, and all who wait go in together. They see the new weights, all of them.",
            inside
            | {
                "request C": [(4.5, 7, "waits", GREY), (7, 10, "inside", GREEN)],
                "request D": [(6.3, 7, "", GREY), (7, 9.5, "inside", GREEN)],
                "the update": done,
            },
        ),
    ]
    title = "An update gets through the gate between requests"
    return Animation([_drawn(title, bars) for _, bars in frames], [caption for caption, _ in frames], 4.0)


def _drawn(title: str, bars: dict[str, Bars]) -> Figure:
    figure = Figure(740, 220, title)
    figure.timeline(110, 10, 590, {name: bars.get(name, []) for name in LANES}, end=10)
    return figure
