"""A row in float32, in int8 with its scale, and in bfloat16; and what one outlier does to the steps of a whole table."""

from __future__ import annotations

from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, RED, Figure


def formats() -> Figure:
    """One row of four numbers in three formats, byte by byte."""
    figure = Figure(740, 270, "A row of four numbers in float32, in int8 with a scale, and in bfloat16")
    numbers = ("0.624", "-1.27", "0.05", "0.30")
    wide = 140
    figure.text(60, 40, "float32", bold=True)
    figure.text(60, 60, "16 bytes", size=12, faint=True)
    for n, number in enumerate(numbers):
        figure.box(120 + wide * n, 25, wide, 44, number, colour=BLUE, code=True)
    figure.text(60, 125, "int8", bold=True)
    figure.text(60, 145, "4 + 4 bytes", size=12, faint=True)
    figure.box(120, 110, wide, 44, "scale 0.01", colour=ORANGE, code=True)
    for n, q in enumerate(("62", "-127", "5", "30")):
        figure.box(120 + wide + 35 * n * 1.3, 110, 45.5, 44, q, colour=GREEN, code=True)
    figure.text(460, 125, "0.01 × 62 = 0.62: off by 0.004,", anchor="start", size=12, faint=True)
    figure.text(460, 143, "less than half of the scale", anchor="start", size=12, faint=True)
    figure.text(60, 210, "bfloat16", bold=True)
    figure.text(60, 230, "8 bytes", size=12, faint=True)
    for n, number in enumerate(("0.625", "-1.27", "0.05", "0.30")):
        figure.box(120 + wide / 2 * n, 195, wide / 2, 44, number, colour=GREY, code=True)
    figure.text(420, 210, "the upper half of float32's bits:", anchor="start", size=12, faint=True)
    figure.text(420, 228, "8 bits of precision, the same range", anchor="start", size=12, faint=True)
    return figure


def outlier() -> Figure:
    """The steps that a row can take, with a scale of its own, and with the scale of a table that has one large number."""
    figure = Figure(740, 230, "The steps of a row with its own scale, and with that of a table with one outlier")
    numbers = (-0.9, -0.25, 0.1, 0.35, 0.8)
    for y, name, step, note in (
        (60, "own scale", 0.1, "each number has a step nearby"),
        (150, "table's scale", 1.0, "one row of the table holds a number 10 times as large: three steps are left for this row"),
    ):
        figure.text(70, y, name, bold=True)
        figure.arrow((140, y), (720, y))
        count = round(1 / step)
        for n in range(-count, count + 1):
            figure.box(430 + 270 * n * step - 2, y - 12, 4, 24, colour=GREEN)
        for number in numbers:
            figure.box(430 + 270 * number - 5, y - 5, 10, 10, colour=RED)
        figure.text(430, y + 32, note, size=12, faint=True)
    figure.text(430, 215, "red: the row's numbers; green: the steps that they can be rounded to", size=12, faint=True)
    return figure
