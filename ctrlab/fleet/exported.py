"""An exported model that is asked in this process, by our processor or by TensorFlow's session, and callers that ask it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

import ctrlab
from ctrlab import data, serving
from ctrlab.model_names import DATA_SETS
from ctrlab.profiles import current
from ctrlab.profiling.timing import now
from ctrlab.serving.graph import OUTPUT, opened
from ctrlab.serving.inputs import inputs_of, to_tensors
from ctrlab.serving.processor import Processor
from ctrlab.serving.warm_up import predict_request

Ask = Callable[[], object]
"""Has a model answer one request."""


def cpus() -> list[int]:
    """Those that this process may use."""
    return sorted(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Exported:
    """A model's folder with one version, and one request to it."""

    folder: Path
    tensors: Mapping[str, tf.Tensor]

    @property
    def request(self) -> bytes:
        return predict_request(self.folder.name, self.tensors)

    @contextlib.contextmanager
    def processor(self, **configuration) -> Iterator[Ask]:
        with Processor(self.folder, **{"poll_seconds": 0} | configuration) as processor:
            request = self.request
            yield lambda: processor.process(request, "predict")

    @contextlib.contextmanager
    def session(self, threads: tuple[int, int] = (0, 0)) -> Iterator[Ask]:
        counts = dict(zip(("intra_op_threads", "inter_op_threads"), threads))
        with opened(self.folder / "1", self.tensors, **counts) as (session, signature):
            yield session.make_callable(signature.outputs[OUTPUT].name)


@contextlib.contextmanager
def exported(name: str, rows: int, optimizations: str, profile: str | None) -> Iterator[Exported]:
    """A model with fresh weights."""
    with tempfile.TemporaryDirectory(prefix="ctrlab-groups-") as folder:
        read = data.prepare(DATA_SETS[name], profile=current(profile)).read_train
        features, _ = next(iter(read(rows, drop_remainder=True)))
        model = ctrlab.build(name, optimizations=optimizations)
        serving.export_model(model, Path(folder, name))
        yield Exported(Path(folder, name), to_tensors(features, inputs_of(model, "text"), model))


def closed_loop(ask: Ask, seconds: float, callers: int | None = None) -> float:
    """Requests per second of callers that ask again once they were answered; one per CPU if their number isn't given."""
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
