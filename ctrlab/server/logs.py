"""What a server tells those who run it: lines of JSON on standard error."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from pythonjsonlogger.json import JsonFormatter

LONGEST = 1_000
"""Characters of a sentence that are told."""
log = logging.getLogger(__name__)


def write_json_lines() -> None:
    """From now on each record of this process is a line of JSON: time, level, logger, message, and what its caller adds."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter(
            "%(levelname)s %(name)s %(message)s", timestamp="time", rename_fields={"levelname": "level", "name": "logger"}
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("ctrlab").setLevel(logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it has a line for each odd request; ours are told together
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)  # it shows a trace whenever a client no longer waits


@dataclass
class _Kind:
    times: int
    id: str
    sentence: str


class Refusals:
    """Requests without an answer, to be told together: who asks wrongly in a loop does not fill the disk. Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def add(self, model: str, why: str, sentence: str, id: str = "") -> None:
        """Remembers the last of its kind, and how many there were."""
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
