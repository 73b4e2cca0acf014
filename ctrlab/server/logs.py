"""The log of a server for its operators: lines of JSON on standard error."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from pythonjsonlogger.json import JsonFormatter

LONGEST = 1_000
"""The most characters of a sentence in the log."""
MOST_BEHIND = 16 << 20
"""The most characters that may wait to be written; lines beyond are dropped."""
END_SECONDS = 1.0
"""Seconds for which the end of the process waits until the log is written."""
STDERR = 2
log = logging.getLogger(__name__)


class Stderr:
    """Standard error as a stream for which no caller waits: a thread writes to it. Text that can't be written is dropped.

    An event loop that wrote itself would stop while a pipe is full that nobody reads, and a closed pipe would raise.
    """

    def __init__(self):
        self._waiting: deque[str] = deque()
        self._behind = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._write, name="ctrlab-stderr", daemon=True).start()
        atexit.register(self._end)

    def write(self, text: str) -> None:
        with self._changed:
            if self._behind + len(text) <= MOST_BEHIND:
                self._behind += len(text)
                self._waiting.append(text)
                self._changed.notify_all()

    def flush(self) -> None:
        """Does nothing, because a flush would wait."""

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                text = self._waiting.popleft()
            rest = text.encode(errors="replace") if sys.__stderr__ else b""  # else the number is that of another file
            with contextlib.suppress(OSError):
                while rest:  # not by sys.stderr: its lock, held while it waits, would stop the end of the process
                    rest = rest[os.write(STDERR, rest) :]
            with self._changed:
                self._behind -= len(text)
                self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._behind, END_SECONDS)


stderr = functools.cache(Stderr)
"""The standard error of this process."""


def to_stderr(line: str) -> None:
    """Writes a line, or drops it."""
    stderr().write(f"{line}\n")


def write_json_lines() -> None:
    """Makes each log record of this process a line of JSON: time, level, logger, message, and the fields that its caller adds."""
    handler = logging.StreamHandler(stderr())
    handler.setFormatter(
        JsonFormatter(
            "%(levelname)s %(name)s %(message)s", timestamp="time", rename_fields={"levelname": "level", "name": "logger"}
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("ctrlab").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it has a line for each odd request; ours are told together
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)  # it shows a trace whenever a client no longer waits


class Once:
    """Logs each sentence as a warning when it begins to hold, and not again while it holds."""

    def __init__(self):
        self._said: frozenset[str] = frozenset()

    def tell(self, sentences: Iterable[str]) -> None:
        """Logs those of the sentences that did not hold at the last call."""
        now = frozenset(sentences)
        for sentence in sorted(now - self._said):
            log.warning("%s", sentence)
        self._said = now


@dataclass
class _Kind:
    times: int
    id: str
    sentence: str


class Refusals:
    """Refused requests, logged in groups, so that a client with a wrong request in a loop does not fill the disk. Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def add(self, model: str, why: str, sentence: str, id: str = "") -> None:
        """Stores the last refusal of its kind, and their number."""
        with self._lock:
            before = self._kinds.get((model, why))
            self._kinds[model, why] = _Kind(before.times + 1 if before else 1, id, sentence[:LONGEST])

    def tell(self) -> None:
        """Writes a line for each model and reason since the last call."""
        with self._lock:
            kinds, self._kinds = self._kinds, {}
        for (model, why), kind in kinds.items():
            told = {"model": model, "why": why, "times": kind.times, "request": kind.id}
            log.info("%s", kind.sentence, extra=told)
