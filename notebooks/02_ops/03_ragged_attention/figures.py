"""Attend without padding: the events that exist, and where each example's events begin."""

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, ORANGE, PAD, PINK, Figure

LENGTHS = (2, 7, 0, 3)
COLOURS = (BLUE, ORANGE, GREEN, PINK)


def padded_to_ragged() -> Animation:
    """A padded batch [B, T] loses its padding and becomes values [N] with splits [B + 1]."""
    frames = [_frame(stage) for stage in range(5)]
    longest, there, cells = max(LENGTHS), sum(LENGTHS), len(LENGTHS) * max(LENGTHS)
    captions = (
        f"Four examples with histories of 2, 7, 0 and 3 events. A dense tensor [B, T] has rows of one length, so T = {longest}.",
        f"The rest is padding. The baseline scores all B·T = {cells} cells, and then masks the scores of the padding.",
        f"Only N = {there} cells hold an event. The others cost the same work, and their result is thrown away.",
        f"Keep the events alone, one example after another: values [N], {there} of them.",
        "Five numbers say where each example begins and ends: example b has the events from splits[b] up to splits[b + 1]. "
        "Example 2 begins and ends at 9: it has none.",
    )
    return Animation(frames, captions)


def _frame(stage: int) -> Figure:
    figure = Figure(700, 300, "A padded batch of four histories becomes one list of events with the places where examples begin")
    events = [[f"{'abcd'[b]}{t}" for t in range(n)] for b, n in enumerate(LENGTHS)]
    if stage < 3:
        rows = [row + [PAD if stage else ""] * (max(LENGTHS) - len(row)) for row in events]
        marked = (
            {(b, t): COLOURS[b] for b, n in enumerate(LENGTHS) for t in range(n)} if stage in (0, 2) else dict(enumerate(COLOURS))
        )
        figure.tensor(150, 60, rows, axes=("B", "T"), cell=(44, 34), marked=marked)
        work = ("", f"{len(LENGTHS) * max(LENGTHS)} cells are scored", f"{sum(LENGTHS)} of them count")[stage]
        figure.text(304, 230, work, bold=True)
        return figure
    flat = [event for row in events for event in row]
    owner = [b for b, n in enumerate(LENGTHS) for _ in range(n)]
    values = figure.tensor(84, 70, [flat], axes=("N",), cell=(44, 34), marked={(0, i): COLOURS[b] for i, b in enumerate(owner)})
    figure.text(70, 87, "values", anchor="end")
    if stage == 4:
        splits = [sum(LENGTHS[:b]) for b in range(len(LENGTHS) + 1)]
        table = figure.table(194, 210, [splits], header=[f"splits[{b}]" for b in range(5)], cell=(66, 34))
        for b, split in enumerate(splits):
            figure.arrow((table.cell(0, b).centre[0], 188), (values.x + 44 * split, 106), dashed=b == 2)
    return figure
