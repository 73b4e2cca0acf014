"""`ctrlab train --follow`: trains on the files that appear in a folder, until a signal to end."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn

if TYPE_CHECKING:
    import tensorflow as tf

    from ctrlab.data.follow import Followed
    from ctrlab.serving.publishing import Publisher
    from ctrlab.training import Run

SMOOTHING = 0.95
"""The smoothing factor of the loss that a progress bar shows."""


class Idle:
    """Whether no rows have come for a number of seconds. It is only called while training waits for rows, because a step or a
    save may take longer.
    """

    def __init__(self, followed: Followed, seconds: float):
        self._followed, self._seconds = followed, seconds
        self._place, self._since = None, 0.0

    def __call__(self) -> bool:
        place = self._followed.used, self._followed.known
        if place != self._place:
            self._place, self._since = place, time.monotonic()
        return time.monotonic() - self._since > self._seconds


def first_examples(training: Run, out: Console, idle: Idle) -> tf.data.Dataset | None:
    """Batches of the followed folder's first file. Waits for it; None if no file has come for too long."""
    from ctrlab.serving.warm_up import EXAMPLES

    with out.status(f"Waiting for the first file in {training.followed.folder}", spinner="dots"):
        training.followed.look()
        while (batches := training.followed.examples(EXAMPLES)) is None:
            if idle():
                return None
            time.sleep(0.2)
            training.followed.look()
    return batches


def follow_files(training: Run, out: Console, publisher: Publisher | None, most_idle: float) -> None:
    """Trains on files as they come, until SIGTERM or SIGINT, or until none has come for the given seconds."""
    stops = threading.Event()
    before = {number: signal.signal(number, lambda *_: stops.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    columns = ("[progress.description]{task.description}", MofNCompleteColumn(), TextColumn("rows{task.fields[loss]}"))
    try:
        with Progress(*columns, console=out) as progress:
            task = progress.add_task(f"Training {training.spec.model}", total=None, loss="")
            smooth = None

            def show(number: int, loss: float) -> None:
                nonlocal smooth
                smooth = loss if smooth is None else SMOOTHING * smooth + (1 - SMOOTHING) * loss
                followed = training.followed
                progress.update(task, completed=followed.used, total=followed.known, loss=f", loss on new rows {smooth:.4f}")

            hooks = [show, publisher] if publisher else [show]
            waits = {"on_wait": publisher.on_wait} if publisher else {}
            training.follow(hooks, ends=stops.is_set, idle=Idle(training.followed, most_idle), **waits)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    left = training.followed.known - training.followed.used
    rest = f"; {left:,} rows {'wait for a whole batch' if left < training.batch_size else 'are left'}" if left else ""
    said = f", loss on new rows {smooth:.4f}" if smooth is not None else ""
    out.print(f"Trained on {training.followed.used:,} rows of {training.followed.folder}{said}{rest}.", soft_wrap=True)
