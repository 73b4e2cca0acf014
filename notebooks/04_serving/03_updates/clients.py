"""A processor under load: clients that ask in threads, and their answers."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.serving.processor import Processor

WAITS_SECONDS = 60.0
TOGETHER = 20  # answers of which the chart shows the slowest and the median


def wait_until_served(processor: Processor, step: int) -> dict:
    """Waits until answers come from this training step or a later one; returns the processor's `info`.

    Raises:
        CtrlabError: that did not happen in time.
    """
    ends = time.monotonic() + WAITS_SECONDS
    while (info := processor.info())["step"] < step:
        if time.monotonic() > ends:
            why = info["stopped"] or next(iter(info["refused"].values()), "nothing new has come")
            raise CtrlabError(f"A server takes what is published; this one stays at step {info['step']} of {step}: {why}")
        time.sleep(0.001)
    return info


@dataclass(frozen=True)
class Answer:
    """An answer: its time and its duration, in seconds, and the weights that gave it."""

    when: float
    seconds: float
    version: int
    update: int
    data: bytes

    @property
    def moment(self) -> tuple[int, int]:
        return self.version, self.update

    @property
    def probabilities(self) -> np.ndarray:
        return np.array(json.loads(self.data)["outputs"])


class Clients:
    """Threads that each repeat the same request until the context ends.

    Attributes:
        answers: the answers so far.
    Raises:
        Refused: at the end of the context, if the processor refused a request.
    """

    def __init__(self, processor: Processor, request: bytes, threads: int = 2, pause: float = 0.002):
        self.answers: list[Answer] = []
        self._processor, self._request, self._pause = processor, request, pause
        self._problem: Exception | None = None
        self._ends = threading.Event()
        self._begun = time.monotonic()
        self._shown = 0
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(threads)]

    def seconds(self) -> float:
        """Seconds since the beginning of the context."""
        return time.monotonic() - self._begun

    def draw(self, times, steps, step_of: dict[tuple[int, int], int]) -> None:
        """Adds the answers that came since the last call to two charts: their durations, and the step of their weights.

        Args:
            step_of: {(version, update): the training's step}.
        """
        while self._shown + TOGETHER <= len(self.answers):
            some = self.answers[self._shown : self._shown + TOGETHER]
            self._shown += TOGETHER
            took = [1e3 * answer.seconds for answer in some]
            times.add(f"slowest of {TOGETHER}", some[-1].when, max(took))
            times.add("median", some[-1].when, float(np.median(took)))
            if some[-1].moment in step_of:
                steps.add("the answers' weights", some[-1].when, step_of[some[-1].moment])

    def __enter__(self) -> Clients:
        self._begun = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()
        if self._problem:
            raise self._problem

    def _ask(self) -> None:
        while not self._ends.is_set():
            begun = time.monotonic()
            try:
                reply = self._processor.process(self._request, "json")
            except CtrlabError as problem:
                self._problem = problem
                return
            now = time.monotonic()
            self.answers.append(Answer(now - self._begun, now - begun, reply.version, reply.update, reply.data))
            self._ends.wait(self._pause)
