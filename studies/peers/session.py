"""A worker's side of the bench. It uses the line protocol of `profiling.processes`:

    {"do": "open", ...job}      -> {"seconds": per step, "versions", "note", "work"}; the first outputs go to job["outputs"]
    {"do": "run", "steps": n}   -> {"seconds": for n steps}

This module imports only NumPy; each worker imports its library.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ctrlab.profiling.processes import serve
from ctrlab.profiling.timing import timed
from studies.peers.cases import Batch, Case, load

WARM_UPS = 5


@dataclass(frozen=True)
class Running:
    """A computation, ready to run.

    Attributes:
        step: runs the batch with the given number, until its result is computed.
        outputs: the outputs for the initial weights, by name, if other sides must get the same; it may train.
        versions: versions of the library, in words.
        note: how the computation differs from ours, in words; empty if it does not.
        work: the least work of a step, as `profiling.work.Work` in JSON, if known.
    """

    step: Callable[[int], Any]
    versions: str
    outputs: Callable[[], dict[str, np.ndarray]] = dict
    note: str = ""
    work: dict | None = None


Prepare = Callable[[Case, list[Batch], int], Running]
"""(case, its batches, threads) -> a computation that is ready to run; one such function per kind of case."""


@dataclass
class Session:
    """The session for one case."""

    running: Running
    batches: int
    outputs: str
    done: int = field(default=0)

    def open(self) -> dict:
        """Writes the first outputs and warms up."""
        np.savez(self.outputs, **self.running.outputs())
        seconds = [self._timed(1) for _ in range(WARM_UPS)]
        known = {name: getattr(self.running, name) for name in ("versions", "note", "work")}
        return {"seconds": statistics.median(seconds)} | known

    def run(self, steps: int) -> dict:
        self._timed(1)  # warm-up: other processes have used the caches meanwhile
        return {"seconds": self._timed(steps)}

    def _timed(self, steps: int) -> float:
        return timed(lambda: self._run(steps))[0]

    def _run(self, steps: int) -> None:
        for _ in range(steps):
            self.running.step(self.done % self.batches)
            self.done += 1


def cpu_per_call(call: Callable, given: Sequence, calls: int) -> float:
    """CPU seconds of this process per call, each with the next of `given`."""
    call(given[-1])  # warm-up: other processes have used the caches meanwhile
    before = time.process_time()
    for i in range(calls):
        call(given[i % len(given)])
    return (time.process_time() - before) / calls


def serve_cases(prepare: dict[str, Prepare]) -> None:
    """Answers requests until stdin is closed, with the computation in `prepare` for the case's kind."""

    def open_session(case: dict, batches: str, threads: int, outputs: str) -> Session:
        wanted, loaded = Case(**case), load(batches)
        return Session(prepare[wanted.kind](wanted, loaded, threads), len(loaded), outputs)

    serve(open_session)
