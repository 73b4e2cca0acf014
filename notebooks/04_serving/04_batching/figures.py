"""Requests on their way into a call, alone and together, and what happens when more come than can be answered."""

from __future__ import annotations

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, RED, Figure


def together() -> Figure:
    """Four requests one by one, and as one call."""
    figure = Figure(740, 250, "Four requests, one by one and as one call")
    fixed, row = 2.0, 0.5
    alone = []
    for request in range(4):
        begin = request * (fixed + row)
        alone += [(begin, begin + fixed, "fixed", GREY), (begin + fixed, begin + fixed + row, "", BLUE)]
    batch = [(0.0, 1.0, "waits", ORANGE), (1.0, 1.0 + fixed, "fixed", GREY)]
    batch += [(1.0 + fixed + row * n, 1.0 + fixed + row * (n + 1), "", BLUE) for n in range(4)]
    figure.timeline(120, 20, 580, {"one by one": alone, "one call of 4": batch}, end=10, lane=60)
    figure.text(410, 205, "grey: the fixed cost of a call; blue: the cost of a row", size=12, faint=True)
    figure.text(410, 228, "the first waits a little, and all four are done in half of the time", size=12, faint=True)
    return figure


def bound() -> Animation:
    """A queue under overload, without and with a bound."""
    frames = [
        (["r1"], [], "The server works on a request. One waits."),
        (["r1", "r2", "r3"], [], "Requests come faster than answers go. The queue grows."),
        (
            ["r1", "r2", "r3", "r4", "r5", "r6"],
            [],
            "Without a bound each newcomer waits longer than the one before, until all give up.",
        ),
        (
            ["r1", "r2", "r3"],
            ["r4"],
            "With a bound of three, the fourth is refused at once: 429. Its client can ask another server.",
        ),
        (
            ["r2", "r3", "r5"],
            ["r4"],
            "An answer goes out, and there is room again. Who is inside never waits for more than three.",
        ),
    ]
    drawn = []
    for waiting, refused, _ in frames:
        figure = Figure(740, 150, "A queue under overload")
        figure.queue(170, 50, waiting, capacity=6, name="waiting", colour=BLUE, cell=(56, 40))
        server = figure.box(600, 45, 110, 50, "server", colour=GREEN)
        figure.arrow((510, 70), server.left)
        figure.arrow((110, 70), (166, 70))
        if refused:
            figure.box(20, 45, 80, 50, f"{refused[0]}: 429", colour=RED)
        else:
            figure.text(60, 70, "requests")
        drawn.append(figure)
    return Animation(drawn, [caption for *_, caption in frames], 3.0)
