"""Users on a line of arms, and the fate of a request whose instance is killed."""

from __future__ import annotations

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, RED, Figure

COLOURS = {"ready": GREEN, "draining": ORANGE, "crashed": RED, "suspect": RED, "starting": GREY, "warming": GREY}


def arms() -> Figure:
    """Two experiments: the same users, hashed to other places of the line from 0 to 100 %."""
    figure = Figure(740, 250, "Two experiments place the same users on lines of arms")
    experiments = {"ranking-7": (90, {"A1": 23, "A2": 95, "A3": 61}), "layout-2": (50, {"A1": 71, "A2": 38, "A3": 84})}
    for row, (name, (control, users)) in enumerate(experiments.items()):
        top, left, width = 62 + 115 * row, 120, 580
        figure.text(left - 12, top + 17, name, anchor="end", bold=True)
        label = f"new {100 - control} %" if control < 80 else "new"
        figure.box(left, top, width * control / 100, 34, f"control {control} %", colour=BLUE)
        figure.box(left + width * control / 100, top, width * (1 - control / 100), 34, label, colour=ORANGE)
        for user, place in users.items():
            at = left + width * place / 100
            figure.arrow((at, top - 22), (at, top - 1))
            figure.text(at, top - 34, user)
            figure.text(at, top + 48, f"{place} %", faint=True)
    return figure


def _frame(states: tuple[str, str], insides: tuple[int, int], notes: tuple[str, ...], sent: int | None) -> Figure:
    """The front, two instances, and where the request is."""
    figure = Figure(740, 220, "A front and two instances, of which one is killed")
    front = figure.box(150, 70, 110, 70, "front", colour=BLUE)
    figure.arrow((30, front.centre[1]), front.left, "request")
    for number, (state, inside) in enumerate(zip(states, insides)):
        place = figure.box(
            430, 20 + 110 * number, 190, 64, f"instance {number + 1}: {state}\n{inside} inside", colour=COLOURS[state]
        )
        figure.arrow(front.right, place.left, colour=BLUE if sent == number else "", dashed=sent != number)
    for line, note in enumerate(notes):
        figure.text(205, 164 + 20 * line, note, faint=True)
    return figure


def killed() -> Animation:
    """An instance is killed, its request is sent to the other one, and the instance comes back."""
    frames = [
        (_frame(("ready", "ready"), (1, 2), (), 0), "Both instances are ready. The request goes to the one with fewer inside."),
        (
            _frame(("crashed", "ready"), (0, 2), ("the connection broke",), None),
            "The process of instance 1 is killed. Its connections break, with the request inside. No answer has come.",
        ),
        (
            _frame(("crashed", "ready"), (0, 3), ("the second try",), 1),
            "A prediction changes nothing, so asking twice does no harm. The request is sent once more, to instance 2.",
        ),
        (
            _frame(("starting", "ready"), (0, 4), ("instance 1 begins anew",), 1),
            "A new process starts. It loads libraries and weights. It gets no requests.",
        ),
        (
            _frame(("warming", "ready"), (0, 4), ("its first requests are ours",), 1),
            "It listens, and answers one request of each model. Those are the front's own: no user waits for them.",
        ),
        (_frame(("ready", "ready"), (1, 3), (), 0), "It is ready again, and takes the next request."),
    ]
    return Animation([figure for figure, _ in frames], [caption for _, caption in frames], 3.0)
