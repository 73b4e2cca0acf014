"""A request in which the user comes once, and what the attention of its candidates can share."""

from __future__ import annotations

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, Figure

CANDIDATES = ("B7", "B2", "B9", "B4")
ROW = 32


def request() -> Animation:
    """Four candidates of a user: whole rows, the first layer on them, and both with the user once."""
    frames = [
        (
            _rows(once=False, kernel=False),
            "A model takes rows. So the request repeats the user and the history in each of its four rows.",
        ),
        (
            _rows(once=False, kernel=True),
            "The first layer multiplies each row by its matrix W. The blue products are the same four times.",
        ),
        (
            _rows(once=True, kernel=False),
            "The same request with the user once: one row of the user's columns, and one per candidate of the others.",
        ),
        (
            _rows(once=True, kernel=True),
            "W is cut between the user's rows and the candidate's. The blue product is made once, and added to all four.",
        ),
    ]
    return Animation([figure for figure, _ in frames], [caption for _, caption in frames], 3.5)


def _rows(once: bool, kernel: bool) -> Figure:
    figure = Figure(740, 230, "Four candidates of one user, as whole rows and with the user once")
    figure.text(110, 26, "user, history", size=12, faint=True)
    figure.text(245, 26, "item", size=12, faint=True)
    users = 1 if once else len(CANDIDATES)
    for row, item in enumerate(CANDIDATES):
        y = 44 + ROW * row
        if row < users:
            figure.box(20, y, 180, ROW - 6, "A1   B3 B5 B1 B8", colour=BLUE, code=True)
        figure.box(215, y, 60, ROW - 6, item, colour=ORANGE, code=True)
    figure.text(148, 195, f"{users} × 5 + 4 × 1 = {5 * users + 4} values", size=12, faint=True)
    if not kernel:
        return figure
    figure.text(315, 100, "×", size=18)
    figure.box(340, 44, 60, 78, "W user", colour=BLUE, code=True)
    figure.box(340, 126, 60, 38, "W item", colour=ORANGE, code=True)
    figure.text(430, 100, "=", size=18)
    for row in range(len(CANDIDATES)):
        y = 44 + ROW * row
        if row < users:
            figure.box(460, y, 110, ROW - 6, "u W user", colour=BLUE, code=True)
        elif once:
            figure.arrow((515, 44 + ROW - 6), (515, y + 2), colour=BLUE, dashed=True)
        figure.text(590, y + 13, "+")
        figure.box(610, y, 110, ROW - 6, "c W item", colour=ORANGE, code=True)
    figure.text(590, 195, f"{users} product{'s' * (users > 1)} of the user, 4 of candidates", size=12, faint=True)
    return figure


def pairs() -> Figure:
    """The first layer of attention: a term per candidate, a term per event, and a term per pair."""
    figure = Figure(740, 290, "The first layer of attention has a term per candidate, a term per event, and a term per pair")
    left, top, wide, high = 250, 100, 62, 34
    events, rows = 6, 4
    figure.text(left + events * wide / 2, 22, "k (Wk - Wd): once per event, T products", bold=True)
    figure.text(left + events * wide / 2, 40, "history", size=12, faint=True)
    for n in range(events):
        figure.box(left + n * wide, top - 44, wide - 6, high - 6, f"k{n}", colour=BLUE, code=True)
    figure.text(86, 130, "q (Wq + Wd):\nonce per candidate,\nN products", bold=True)
    for row in range(rows):
        figure.box(left - 70, top + row * high, wide - 6, high - 6, f"q{row}", colour=ORANGE, code=True)
        for n in range(events):
            figure.box(left + n * wide, top + row * high, wide - 6, high - 6, f"q{row}*k{n}", colour=GREY, code=True)
    figure.text(86, 184, "candidates", size=12, faint=True)
    figure.text(left + events * wide / 2, 252, "(q * k) Wp, the sigmoids, and all layers above: once per pair, N T", bold=True)
    figure.box(left + events * wide + 20, top, 92, rows * high - 6, "cannot\nbe shared", colour=GREEN)
    figure.text(left + events * wide / 2, 274, "a cell adds its own term to its row's and its column's", size=12, faint=True)
    return figure
