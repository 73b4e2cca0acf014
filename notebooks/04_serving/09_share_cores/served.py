"""Exported models in this process, and the requests that keep two real cores busy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from ctrlab.lessons.topics.share_cores.curve import Load, ServiceCurve
from ctrlab.lessons.topics.share_cores.real_cores import Ask

from ctrlab.profiles import current
from ctrlab.profiling.progress import track
from ctrlab.server.exported import Exported
from ctrlab.serving.warm_up import predict_request

MEASURED = (1, 100, 200, 500)
"""Numbers of rows of the requests from which curves are measured."""
CHECKED = (50, 150, 400)
"""Numbers of rows of the requests that check the simulation. They are long, so that there are few: the sender uses the same
two cores.
"""
SHARE = (0.7, 0.3)
"""Shares of the work: of the first model, and of the second."""
LIMIT = 1.0  # seconds: here nothing depends on it


@contextlib.contextmanager
def served(models: Sequence[str], rows: Sequence[int], profile: str | None = None) -> Iterator[dict[str, Ask]]:
    """{model: function that asks it}, for requests with these numbers of rows. The models run in this process, with all
    optimizations and fresh weights.
    """
    with contextlib.ExitStack() as held:
        asks = {}
        for name in track(models, "Exporting"):
            model = held.enter_context(contextlib.closing(Exported(name, current(profile), "all", max(rows))))
            processor, requests = model.processor(), {n: predict_request(name, model.tensors(n)) for n in rows}
            asks[name] = lambda n, processor=processor, requests=requests: processor.process(requests[n], "predict")
        yield asks


def loads_of(curves: Mapping[str, ServiceCurve], utilization: float, *, apart: bool) -> dict[str, Load]:
    """Loads of requests of `CHECKED` rows that keep two cores busy to this degree: both cores together or, if apart, each
    model its own core.
    """
    shares = (0.5, 0.5) if apart else SHARE
    mean = float(np.mean(CHECKED))
    return {
        model: Load(curve, 2 * utilization * share / curve.mean(mean), CHECKED, LIMIT)
        for (model, curve), share in zip(curves.items(), shares)
    }
