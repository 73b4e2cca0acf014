"""A served model and many clients who ask it at once, in one process: for lessons."""

from __future__ import annotations

import atexit
import contextlib
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tensorflow as tf

import ctrlab
from ctrlab import data, serving
from ctrlab.lessons.live_serving import json_request
from ctrlab.model_names import DATA_SETS
from ctrlab.profiles import Profile
from ctrlab.server.models import Models, Overloaded
from ctrlab.serving.inputs import Features, inputs_of, to_tensors
from ctrlab.serving.processor import Processor

MOST_ROWS = 64
ENOUGH_SECONDS = 0.3  # to know how many requests per second can be answered


class Exported:
    """A model in a folder of its own, which goes with this process, also where a notebook's cell has failed.

    Args:
        optimizations: as for `ctrlab.build`.
    """

    def __init__(self, name: str, profile: Profile, optimizations: str):
        self._held = contextlib.ExitStack()
        atexit.register(self._held.close)
        folder = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="ctrlab-")))
        self._features, _ = next(iter(data.prepare(DATA_SETS[name], profile=profile).read_train(MOST_ROWS, drop_remainder=True)))
        self._model = ctrlab.build(name, optimizations=optimizations)
        self.folder = folder / name
        self.export()

    def export(self) -> int:
        """Exports the model as one more version, and returns its number."""
        return int(serving.export_model(self._model, self.folder, rows=[self.rows(1)]).name)

    def rows(self, rows: int) -> Features:
        """Features of so many examples, at most `MOST_ROWS`."""
        return {column: values[:rows] for column, values in self._features.items()}

    def tensors(self, rows: int) -> dict[str, tf.Tensor]:
        """A request for the scores of so many rows, as the model's inputs."""
        return to_tensors(self.rows(rows), inputs_of(self._model, "text"), self._model)

    def request(self, rows: int) -> bytes:
        """The same as JSON, by columns."""
        return json_request(self.rows(rows), self._model)

    def processor(self, **configuration) -> Processor:
        """The compiled server of the model, until `close`."""
        return self._held.enter_context(Processor(self.folder, poll_seconds=0, **configuration))

    @contextlib.contextmanager
    def server(self, **options) -> Iterator[Models]:
        """What answers requests in `ctrlab serve`, with one thread, while the block runs."""
        models = Models(self.folder, threads=1, poll_seconds=0, **options)
        try:
            yield models
        finally:
            models.close()

    def close(self) -> None:
        self._held.close()
        atexit.unregister(self._held.close)


def ask(processor: Processor, request: bytes, *, clients: int, requests: int) -> None:
    """So many clients ask at once, each again and again, until all have asked this often together."""

    def client(requests: int) -> None:
        for _ in range(requests):
            processor.process(request, "json")

    with ThreadPoolExecutor(clients) as pool:
        for asked in [pool.submit(client, requests // clients) for _ in range(clients)]:
            asked.result()


@dataclass
class Overload:
    """What became of requests that came faster than they could be answered.

    Attributes:
        took: seconds from a request to its answer, of each that was taken. refused: how many were not.
        slowest_refusal: the seconds that it took at most to be refused.
    """

    took: list[float] = field(default_factory=list)
    refused: int = 0
    slowest_refusal: float = 0.0

    def draw(self, came: list[tuple[float, float]], begun: float, chart, name: str) -> None:
        """Takes up the answers that came since the last call: [(when it was asked, when it was answered)]."""
        while len(self.took) < len(came):
            asked, answered = came[len(self.took)]
            self.took.append(answered - asked)
            chart.add(name, answered - begun, 1e3 * self.took[-1])

    @property
    def median(self) -> float:
        return float(np.median(self.took))

    def within(self, seconds: float) -> int:
        """How many were answered in this time."""
        return sum(each <= seconds for each in self.took)


def overload(models: Models, request: bytes, *, times: float, seconds: float, chart, name: str) -> Overload:
    """Asks so many times as fast as can be answered, whether or not answers come: users don't wait for each other.

    Args:
        chart: takes the milliseconds of each answer over the seconds since the first request.
    """
    (model,) = models.served
    begun, answers = time.monotonic(), 0
    while time.monotonic() < begun + ENOUGH_SECONDS:
        models.submit(model, request, "json").result()
        answers += 1
    gap = ENOUGH_SECONDS / answers / times
    found, came, inside, gaps = Overload(), [], [], np.random.default_rng(0)
    at = begun = time.monotonic()
    while at < begun + seconds:
        time.sleep(max(0.0, at - time.monotonic()))
        asked = time.monotonic()
        try:
            reply = models.submit(model, request, "json")
            reply.add_done_callback(lambda _, asked=asked: came.append((asked, time.monotonic())))
            inside.append(reply)
        except Overloaded:
            found.refused += 1
            found.slowest_refusal = max(found.slowest_refusal, time.monotonic() - asked)
        at += gaps.exponential(gap)
        found.draw(came, begun, chart, name)
    for reply in inside:
        reply.result()
        found.draw(came, begun, chart, name)
    return found
