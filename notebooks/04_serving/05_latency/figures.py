"""A server that stalls, as two generators of load see it."""

from __future__ import annotations

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, RED, Figure

DUE = range(1, 9)
STALL = (2.5, 6.5)
CALL = 0.4


def _frame(closed: int, opened: int, measured: dict[int, float]) -> Figure:
    """The first requests of each loop, up to a number; the numbers are the measured latencies of some."""
    figure = Figure(740, 250, "Requests of a closed and of an open loop while a server stalls")
    lanes: dict[str, list] = {"server": [(*STALL, "stalls", RED)], "due": [], "closed loop": [], "open loop": []}
    lanes["due"] = [(at, at + CALL, at, GREY) for at in DUE]
    free = 0.0
    for at in DUE[:closed]:
        asked = max(at, free)
        begins = STALL[1] if STALL[0] <= asked < STALL[1] else asked
        free = begins + CALL
        lanes["closed loop"].append((asked, free, "", GREEN))
    place = figure.timeline(110, 20, 560, lanes, end=10, lane=38)
    scale = 560 / 10
    free = 0.0
    for at in DUE[:opened]:
        begins = max(at, free)
        begins = STALL[1] if STALL[0] <= begins < STALL[1] else begins
        free = begins + CALL
        colour = ORANGE if free - at > 2 * CALL else BLUE
        top = place.y + 3 * 38 + 4 + 3.9 * (at - 1)
        figure.box(place.x + at * scale, top, (free - at) * scale, 3.4, colour=colour)
    for line, (number, worst) in enumerate(measured.items()):
        figure.text(
            place.x, 222 + 17 * line, f"slow in the {('closed', 'open')[line]} loop: {number} of 8, {worst}", anchor="start"
        )
    return figure


def stall() -> Animation:
    """Eight requests are due, one per unit of time; the server stops for four units."""
    frames = [
        (_frame(2, 2, {}), "A request is due in each unit of time. So far both loops send it then, and it is answered soon."),
        (_frame(3, 3, {}), "The server stalls. The closed loop waits for its answer to request 3. It sends nothing meanwhile."),
        (_frame(3, 6, {}), "Requests 4, 5 and 6 are due in the stall. Only the open loop sends them, as users would."),
        (
            _frame(8, 8, {1: "and the others look quick", 6: "as users met it"}),
            "Bars begin at the moment from which each loop counts. The closed loop saw one slow request, the open loop six.",
        ),
    ]
    return Animation([figure for figure, _ in frames], [caption for _, caption in frames], 3.0)
