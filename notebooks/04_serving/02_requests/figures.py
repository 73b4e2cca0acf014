"""The bytes of a binary request, and what a parser that copies nothing leaves behind."""

from __future__ import annotations

from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, Figure


def request() -> Figure:
    """A header of JSON, and three tensors behind it."""
    figure = Figure(740, 190, "A binary request: a header of JSON, then the bytes of each tensor")
    header = figure.box(20, 40, 230, 56, 'header: JSON\n"inputs": [item, price, hour]', colour=GREY)
    item = figure.box(250, 40, 210, 56, "item\n2 texts", colour=ORANGE)
    figure.box(460, 40, 110, 56, "price\n2 × 4 bytes", colour=BLUE)
    figure.box(570, 40, 130, 56, "hour\n2 × 8 bytes", colour=GREEN)
    figure.text(header.centre[0], 22, "Inference-Header-Content-Length", size=12)
    figure.text(475, 22, "as in memory, one behind the other", size=12)
    figure.table(250, 132, [["2", "0", "0", "0", "B", "1", "1", "0", "0", "0", "C"]], cell=(34, 30))
    figure.arrow(item.bottom, (355, 128))
    figure.text(190, 147, "item, byte by byte", size=12)
    return figure


def views() -> Figure:
    """Texts stay where they came; each is an address and a size."""
    figure = Figure(740, 200, "A parser that copies nothing")
    figure.text(120, 24, "the request's bytes", bold=True)
    figure.table(30, 44, [["2", "0", "0", "0", "B", "1", "1", "0", "0", "0", "C"]], cell=(42, 34))
    first = figure.box(140, 130, 190, 44, "address of B, size 2", colour=GREEN)
    second = figure.box(400, 130, 190, 44, "address of C, size 1", colour=GREEN)
    figure.arrow(first.top, (219, 82))
    figure.arrow(second.top, (471, 82))
    figure.text(660, 152, "found", bold=True)
    return figure
