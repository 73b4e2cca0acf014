"""An exported model and one request to it, ways to answer it in this process, and callers that ask again and again."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from ctrlab.profiles import current
from ctrlab.profiling.timing import now
from ctrlab.server.exported import Exported
from ctrlab.serving.graph import OUTPUT, opened
from ctrlab.serving.processor import Processor
from ctrlab.serving.warm_up import predict_request

Ask = Callable[[], object]
"""A function that makes a model answer one request."""


def cpus() -> list[int]:
    """The CPUs that this process may use."""
    return sorted(os.sched_getaffinity(0))


@dataclass(frozen=True)
class OneRequest:
    """An exported model and one request to it, which a processor or a TensorFlow session answers repeatedly."""

    folder: Path
    tensors: Mapping[str, tf.Tensor]

    @property
    def request(self) -> bytes:
        """The request in the form that a processor takes."""
        return predict_request(self.folder.name, self.tensors)

    @contextlib.contextmanager
    def processor(self, **configuration) -> Iterator[Ask]:
        """A context with a function that asks our processor."""
        with Processor(self.folder, **{"poll_seconds": 0} | configuration) as processor:
            request = self.request
            yield lambda: processor.process(request, "predict")

    @contextlib.contextmanager
    def session(self, threads: tuple[int, int] = (0, 0)) -> Iterator[Ask]:
        """A context with a function that asks a session with these intra-op and inter-op threads; 0: TensorFlow chooses."""
        counts = dict(zip(("intra_op_threads", "inter_op_threads"), threads))
        with opened(self.folder / "1", self.tensors, **counts) as (session, signature):
            yield session.make_callable(signature.outputs[OUTPUT].name)


@contextlib.contextmanager
def exported(name: str, rows: int, optimizations: str, profile: str | None) -> Iterator[OneRequest]:
    """A context with an exported model and a request of this number of rows."""
    with contextlib.closing(Exported(name, current(profile), optimizations, rows)) as model:
        yield OneRequest(model.folder, model.tensors(rows))


def closed_loop(ask: Ask, seconds: float, callers: int | None = None) -> float:
    """Requests per second of callers that each ask again as soon as they are answered; by default one caller per CPU."""
    ends = threading.Event()
    with ThreadPoolExecutor(callers or len(cpus())) as threads:
        ask()
        start = now()
        counts = [threads.submit(_until, ends, ask) for _ in range(callers or len(cpus()))]
        time.sleep(seconds)
        ends.set()
        asked = sum(count.result() for count in counts)
        return asked / (now() - start)


def _until(ends: threading.Event, ask: Ask) -> int:
    count = 0
    while not ends.is_set():
        ask()
        count += 1
    return count
