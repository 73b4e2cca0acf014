"""The ring, as the lesson on more workers draws it; and rows that are dealt out by whole row groups, or by ranges."""

from __future__ import annotations

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, RED, Figure
from ctrlab.lessons.figures.ring import all_reduce

COLOURS = (BLUE, ORANGE, GREEN)
GROUPS, WIDE = 7, 80  # row groups of a file, and the width of one
LEFT = 126


def ring() -> Animation:
    """Three workers, three numbers each: every number is summed on its way around, then the sums go around."""
    return all_reduce()


def dealt() -> Figure:
    """Seven row groups for three workers: as whole groups in turn, a group is never trained on; as ranges of rows, all are."""
    figure = Figure(740, 270, "Seven row groups are dealt out to three workers, whole or by ranges of rows")
    figure.text(LEFT - 12, 45, "a file", anchor="end", bold=True)
    for group in range(GROUPS):
        figure.box(LEFT + WIDE * group, 30, WIDE - 6, 30, f"group {group}", colour=GREY)
    figure.text(LEFT - 12, 125, "whole groups", anchor="end", bold=True)
    for group in range(GROUPS):
        last = group == GROUPS - 1
        label = f"worker {group % 3}" if not last else "lost"
        figure.box(LEFT + WIDE * group, 110, WIDE - 6, 30, label, colour=RED if last else COLOURS[group % 3], dashed=last)
    said = "Worker 0 would have three groups and the others two. A step needs all workers, so all end after two."
    figure.text(LEFT, 158, said, anchor="start", size=12, faint=True)
    figure.text(LEFT - 12, 215, "ranges", anchor="end", bold=True)
    range_wide = (WIDE * GROUPS - 6) / 3
    for worker in range(3):
        figure.box(LEFT + range_wide * worker, 200, range_wide - 4, 30, f"worker {worker}", colour=COLOURS[worker])
    said = "Each worker has a range of rows. A group at a border is decoded by both of its workers."
    figure.text(LEFT, 248, said, anchor="start", size=12, faint=True)
    return figure
