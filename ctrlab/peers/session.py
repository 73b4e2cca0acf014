"""A worker's half of the bench. It speaks the lines of `profiling.processes`:

    {"do": "open", ...job}      -> {"seconds": of one step, "versions", "note", "work"}; first outputs go to job["outputs"]
    {"do": "run", "steps": n}   -> {"seconds": of n steps}

NumPy alone is imported here; what a peer needs, its worker imports.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ctrlab.peers.cases import Batch, Case, load
from ctrlab.profiling.processes import serve
from ctrlab.profiling.timing import timed

WARM_UPS = 5


@dataclass(frozen=True)
class Running:
    """A computation, ready to run.

    Attributes:
        step: number of a batch -> runs it to its end.
        outputs: what comes out with the first weights, by name, where it must be what others get; it may train.
        versions: of the library, in words.
        note: what differs from what ours computes, in words; empty where nothing does.
        work: the floor of a step, as `profiling.work.Work` in JSON, where known.
    """

    step: Callable[[int], Any]
    versions: str
    outputs: Callable[[], dict[str, np.ndarray]] = dict
    note: str = ""
    work: dict | None = None


Prepare = Callable[[Case, list[Batch], int], Running]
"""(case, its batches, threads) -> ready to run; one a kind of case."""


@dataclass
class Session:
    """Answers for one case."""

    running: Running
    batches: int
    outputs: str
    done: int = field(default=0)

    def open(self) -> dict:
        """Writes the first outputs, warms up."""
        np.savez(self.outputs, **self.running.outputs())
        seconds = [self._timed(1) for _ in range(WARM_UPS)]
        known = {name: getattr(self.running, name) for name in ("versions", "note", "work")}
        return {"seconds": statistics.median(seconds)} | known

    def run(self, steps: int) -> dict:
        self._timed(1)  # other processes have had the caches meanwhile
        return {"seconds": self._timed(steps)}

    def _timed(self, steps: int) -> float:
        return timed(lambda: self._run(steps))[0]

    def _run(self, steps: int) -> None:
        for _ in range(steps):
            self.running.step(self.done % self.batches)
            self.done += 1


def serve_cases(prepare: dict[str, Prepare]) -> None:
    """Answers requests until they end, with the computation that `prepare` has for the case's kind."""

    def open_session(case: dict, batches: str, threads: int, outputs: str) -> Session:
        wanted, loaded = Case(**case), load(batches)
        return Session(prepare[wanted.kind](wanted, loaded, threads), len(loaded), outputs)

    serve(open_session)
