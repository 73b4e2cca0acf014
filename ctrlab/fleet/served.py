"""Exported models in this process, and the requests with which two real cores are kept busy."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

import ctrlab
from ctrlab import data, serving
from ctrlab.fleet.curve import Load, ServiceCurve
from ctrlab.fleet.real import Ask
from ctrlab.model_names import DATA_SETS
from ctrlab.profiles import current
from ctrlab.profiling.progress import track
from ctrlab.serving.inputs import inputs_of, to_tensors
from ctrlab.serving.processor import Processor
from ctrlab.serving.warm_up import predict_request

MEASURED = (1, 100, 200, 500)
"""Rows of the requests from which curves are measured."""
CHECKED = (50, 150, 400)
"""Long ones, and so few: what sends them takes a part of the same two cores."""
SHARE = (0.7, 0.3)
"""Of the work, of the first model and of the second."""
LIMIT = 1.0  # seconds: here nothing depends on it


@contextlib.contextmanager
def served(models: Sequence[str], rows: Sequence[int], profile: str | None = None) -> Iterator[dict[str, Ask]]:
    """{model: what asks it}, with all optimizations and fresh weights, in this process, for requests of these rows."""
    with tempfile.TemporaryDirectory(prefix="ctrlab-fleet-") as folder, contextlib.ExitStack() as open_ones:
        asks = {}
        for name in track(models, "Exporting"):
            read = data.prepare(DATA_SETS[name], profile=current(profile)).read_train
            features, _ = next(iter(read(max(rows), drop_remainder=True)))
            model = ctrlab.build(name, optimizations="all")
            tensors = {n: to_tensors({c: v[:n] for c, v in features.items()}, inputs_of(model, "text"), model) for n in rows}
            serving.export_model(model, Path(folder) / name)
            processor = open_ones.enter_context(Processor(Path(folder) / name, poll_seconds=0))
            requests = {n: predict_request(name, each) for n, each in tensors.items()}
            asks[name] = lambda n, processor=processor, requests=requests: processor.process(requests[n], "predict")
        yield asks


def loads_of(curves: Mapping[str, ServiceCurve], utilization: float, *, apart: bool) -> dict[str, Load]:
    """Requests of `CHECKED` rows that keep two cores busy so much: together, or, apart, each model its own core."""
    shares = (0.5, 0.5) if apart else SHARE
    mean = float(np.mean(CHECKED))
    return {
        model: Load(curve, 2 * utilization * share / curve.mean(mean), CHECKED, LIMIT)
        for (model, curve), share in zip(curves.items(), shares)
    }
