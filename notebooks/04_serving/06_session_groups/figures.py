"""Requests to a light and a heavy model: in one pool of threads, and in two members with a thread each."""

from __future__ import annotations

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREY, ORANGE, Figure

LIGHT, HEAVY = BLUE, ORANGE


def _pool(step: int) -> Figure:
    """One pool: the heavy request's ops are split over both threads."""
    figure = Figure(740, 200, "One pool of two threads: a light request waits behind parts of a heavy one")
    parts = [("heavy 1a", HEAVY), ("heavy 1b", HEAVY), ("heavy 2a", HEAVY), ("heavy 2b", HEAVY), ("light", LIGHT)]
    waiting = parts[2 * step :]
    figure.text(90, 30, "queue of the pool", size=12, faint=True)
    for n, (name, colour) in enumerate(waiting[2:]):
        figure.box(40 + 100 * n, 45, 92, 34, name, colour=colour)
    for thread, (name, colour) in enumerate([*waiting[:2], ("idle", GREY)][:2]):
        figure.text(470, 62 + 70 * thread, f"thread {thread + 1}", anchor="end")
        figure.box(480, 45 + 70 * thread, 150, 34, name, colour=colour)
    return figure


def _group(step: int) -> Figure:
    """Two members: each has its own thread and its own queue."""
    figure = Figure(740, 200, "A group of two members: the light request has a member of its own")
    heavy = [f"heavy {n}" for n in ("1a", "1b", "2a", "2b")][step:]
    for member, (names, colour) in enumerate(((heavy, HEAVY), (["light"] if step == 0 else [], LIGHT))):
        y = 45 + 70 * member
        figure.text(470, y + 17, f"member {member + 1}", anchor="end")
        figure.box(480, y, 150, 34, names[0] if names else "idle", colour=colour if names else GREY)
        for n, name in enumerate(names[1:]):
            figure.box(40 + 100 * n, y, 92, 34, name, colour=colour)
    return figure


def queues() -> Animation:
    """The same requests, three steps in a pool and two in a group."""
    frames = [
        (_pool(0), "One pool. The heavy request has split its first op in two parts, 1a and 1b. Both threads work on them."),
        (_pool(1), "Its second op is split, too: 2a and 2b. The light request still waits in the pool's queue."),
        (_pool(2), "Now a thread is free for the light request. It waited for two ops of another model."),
        (_group(0), "A group of two members. The heavy request stays in member 1. The light request begins at once in member 2."),
        (_group(1), "The light request is answered. The heavy one takes longer now: one thread does all of its parts."),
    ]
    return Animation([figure for figure, _ in frames], [caption for _, caption in frames], 3.0)
