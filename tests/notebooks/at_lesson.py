"""Runs solved lessons at the profile `lesson`, one at a time, and prints a line each: its verdict, its seconds, its peak memory.

Claims that few rows can't show are judged at `lesson` only, so this run is what tells that each lesson can be passed.

`python -m tests.notebooks.at_lesson [PART/PARTS] [LESSON ...]`: every PARTS-th lesson from number PART on; without either, all.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import contextmanager

import psutil
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from traitlets.config import Config

from ctrlab.lessons import build, progress
from ctrlab.profiling.timing import timed

CELL_SECONDS = 1_800
EACH = 0.5  # seconds between two looks at the memory
PASSED = "passed"


def chosen(arguments: Sequence[str], lessons: Sequence[str]) -> list[str]:
    """The lessons that the arguments name.

    Raises:
        SystemExit: an argument is neither a part, such as 2/6, nor a lesson.
    """
    found = []
    for argument in arguments or ["1/1"]:
        part = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", argument)
        if part and int(part[1]) <= int(part[2]):
            found += lessons[int(part[1]) - 1 :: int(part[2])]
        elif argument in lessons:
            found.append(argument)
        else:
            raise SystemExit(f"Name parts, such as 2/6, or lessons, such as {lessons[0]}; {argument!r} is neither.")
    return found


def run(name: str) -> tuple[str, float]:
    """Runs the solved lesson in this process's environment. Returns what it came to, "passed" or why not, and the peak memory of
    its processes in bytes."""
    local = Config({"KernelManager": {"transport": "ipc"}})  # over TCP, Jupyter warns that others can read it
    client = NotebookClient(build.lessons()[name], timeout=CELL_SECONDS, kernel_name="python3", config=local)
    peak = Peak()
    with client.setup_kernel(), peak.watched(client.km.provisioner.pid):
        try:
            for number, cell in enumerate(client.nb.cells):
                client.execute_cell(cell, number)
        except CellTimeoutError:
            return f"{cell.id}: took over {CELL_SECONDS} s", peak.bytes
        except CellExecutionError as error:
            return f"{cell.id}: {error.ename}: {' '.join(error.evalue.split())[:300]}", peak.bytes
    return outcome(progress.Store().load(name).verdict), peak.bytes


def outcome(verdict: progress.Verdict | None) -> str:
    """A verdict in a line: "passed", or what was not shown."""
    if verdict is None or verdict.passed:
        return PASSED if verdict else "no verdict was saved"
    refuted = [claim for claim, holds in verdict.claims.items() if holds is False]
    slow = [str(verdict.speed)] if verdict.speed and verdict.speed.verdict not in ("yes", progress.NOT_JUDGED) else []
    return f"{verdict}: {'; '.join(refuted + slow)}"


class Peak:
    """The largest memory of a process and its children together, looked at twice a second. Shared pages count once."""

    def __init__(self):
        self.bytes, self._over = 0, threading.Event()

    @contextmanager
    def watched(self, pid: int):
        thread = threading.Thread(target=self._watch, args=(psutil.Process(pid),), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _watch(self, parent: psutil.Process) -> None:
        while not self._over.wait(EACH):
            now = 0
            for process in (parent, *parent.children(recursive=True)):
                try:
                    now += process.memory_full_info().pss
                except psutil.Error:  # it has just ended
                    continue
            self.bytes = max(self.bytes, now)


def main(arguments: Sequence[str]) -> int:
    """Runs the chosen lessons. Returns 1 if one was not passed."""
    os.environ["CTRLAB_PROFILE"] = "lesson"
    failed = 0
    for name in chosen(arguments, list(build.lessons())):
        with tempfile.TemporaryDirectory(prefix="at-lesson-") as work:
            os.environ["CTRLAB_WORK"] = work
            seconds, (came, peak) = timed(functools.partial(run, name))
        failed += came != PASSED
        print(f"{name:36} {seconds:6.0f} s {peak / 1e9:6.2f} GB  {came}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
