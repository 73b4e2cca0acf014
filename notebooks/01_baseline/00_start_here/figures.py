"""Start here: the part that each optimization makes faster, why measurements come in pairs, and what a pointer is."""

from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, Figure
from ctrlab.optimizations import LADDER, Optimization

MODEL = "din"
PARTS = ("read a batch", "texts to ids", "look up\nembeddings", "let columns\nmeet", "dense layers", "update,\nnext step")
PART_OF = {"parsing": 1, "lookup": 2, "indicator": 2, "subgraphs": 4, "bf16": 4}
"""{rung of level "model": number of the part that it makes faster}; rungs that are not listed change how columns meet."""
QUIET = 12  # the time at which another program starts


def ladder() -> Figure:
    """The parts of a training step, and below each the rungs that make it faster; those of the lesson's model are coloured."""
    columns = [[rung for rung in LADDER if rung.level != "serving" and _part(rung) == number] for number in range(len(PARTS))]
    width, height, top = 122, 28, 136
    figure = Figure(750, top + 34 * max(map(len, columns)) + 10, "A training step from data to update, and the rungs per part")
    for name, first, last in (("data", 0, 0), ("model", 1, 4), ("step", 5, 5)):
        left, right = 10 + first * width, 10 + (last + 1) * width - 8
        figure.box(left, 10, right - left, 30, name, colour=GREY)
    for number, (part, rungs) in enumerate(zip(PARTS, columns)):
        x = 10 + number * width
        box = figure.box(x, 60, width - 22, 50, part, colour=BLUE)
        if number < len(PARTS) - 1:
            figure.arrow(box.right, (x + width, box.centre[1]))
        for place, rung in enumerate(rungs):
            colour = GREEN if rung.level == "model" and MODEL in rung.models and not rung.changes_results else ""
            chip = figure.box(x - 2, top + 34 * place, width - 8, height, colour=colour)
            figure.text(*chip.centre, rung.name.replace("_", " "), size=12)
    figure.text(
        20,
        figure.height - 50,
        f'green: what optimizations="all"\nchanges in {MODEL.upper()}',
        anchor="start",
        size=12,
        faint=True,
    )
    return figure


def _part(rung: Optimization) -> int:
    return {"input": 0, "model": PART_OF.get(rung.name, 3), "run": len(PARTS) - 1}[rung.level]


def pairs() -> Figure:
    """B needs half of A's time. Another program doubles all times from the middle on: only pairs still show the half."""
    figure = Figure(740, 226, "Blocks of A and B measured one after the other, and in pairs, while another program starts")
    x, width, end = 150, 570, 24
    middle = x + width * QUIET / end
    figure.box(middle, 40, width / 2, 128, dashed=True)
    figure.text((middle + x + width) / 2, 26, "another program runs: everything takes twice as long", faint=True, size=12)
    lanes = {name: _bars(order) for name, order in (("first A, then B", "AAABBB"), ("in pairs", "ABBAAB"))}
    figure.timeline(x, 46, width, lanes, unit="time", end=end, lane=58)
    for begin, stop in ((0, 6), (6, 12), (12, 24)):
        figure.box(x + begin * width / end, 46 + 58, (stop - begin) * width / end, 58, dashed=True)
    said = (
        "First A, then B: each block of B seems to take as long as one of A.",
        "In pairs (dashed frames): B takes half as long as A, in every pair.",
    )
    for line, text in enumerate(said):
        figure.text(x, 194 + 20 * line, text, anchor="start", size=12)
    return figure


def _bars(order: str) -> list[tuple[float, float, str, str]]:
    """Blocks one after the other: A takes 4 and B takes 2, twice that when the other program runs."""
    bars, at = [], 0
    for name in order:
        seconds = {"A": 4, "B": 2}[name] * (1 if at < QUIET else 2)
        bars.append((at, at + seconds, name, {"A": ORANGE, "B": GREEN}[name]))
        at += seconds
    return bars


def pointer() -> Figure:
    """A matrix of two rows and three columns, and how it lies in memory behind a pointer."""
    figure = Figure(
        740, 196, "A matrix of two rows and three columns lies in memory row after row; a pointer holds its first address"
    )
    numbers = [[2, 3, 5], [7, 11, 13]]
    figure.tensor(60, 40, numbers, axes=("b", "c"), cell=(44, 34), marked={(1, 2): GREEN})
    figure.text(126, 128, "2 rows, n = 3 columns", faint=True, size=12)
    flat = [number for row in numbers for number in row]
    memory = figure.table(
        300, 50, [flat], header=[f"p[{i}]" for i in range(6)], name="memory", cell=(66, 34), marked={(0, 5): GREEN}
    )
    p = figure.box(300, 136, 66, 32, "p", colour=BLUE, code=True)
    figure.arrow(p.top, memory.cell(0, 0).bottom)
    figure.arrow((memory.cell(0, 3).centre[0], 134), memory.cell(0, 3).bottom, dashed=True)
    figure.text(memory.cell(0, 3).centre[0], 150, "p + 3", code=True)
    figure.text(memory.cell(0, 5).centre[0], 106, "b = 1, c = 2:", size=12)
    figure.text(memory.cell(0, 5).centre[0], 124, "p[1 * n + 2]", size=12, code=True)
    return figure
