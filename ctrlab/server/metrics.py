"""The metrics of a server, in Prometheus's format."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ctrlab.server.request_log import RequestLog
from ctrlab.server.served import ServedModel
from ctrlab.serving.processor import STAGES, Reply

SECONDS = tuple(float(f"{digit}e{power}") for power in range(-4, 1) for digit in (1, 2, 3, 4, 6))
"""Upper ends of the histogram buckets of latencies, in seconds: five per power of ten."""
STAGES_SEEN = ("queue", *STAGES)
"""The stages of a request: the wait for a thread, and the processor's stages."""
UNLOADED = 2
"""The number of unloaded versions per model whose latencies stay, so that a scrape after the change has their last counts."""


class Metrics(Collector):
    """Latencies by model and version, and of their stages; answers and refusals; and the versions that the processors serve.

    Args:
        inside: returns the number of requests that are in work or wait.
    """

    def __init__(self, served: Mapping[str, ServedModel], inside: Callable[[], int], log: RequestLog | None = None):
        self._served, self._inside, self._log = served, inside, log
        self._answered: dict[str, dict[int, None]] = defaultdict(dict)  # versions, in order
        self._registry = CollectorRegistry()

        def latencies(name: str, says: str, *labels: str) -> Histogram:
            return Histogram(f"ctrlab_{name}_seconds", says, labels, buckets=SECONDS, registry=self._registry)

        self._whole = latencies("request", "Latency of answered requests", "model", "version")
        self._stages = latencies("stage", "Latency of their stages", "model", "version", "stage")
        self._refused = Counter(
            "ctrlab_refused_requests", "Requests without an answer", ["model", "why"], registry=self._registry
        )
        self._registry.register(self)

    def answered(self, model: str, queue: float, whole: float, reply: Reply) -> None:
        """Counts an answer, with its wait and its latency in seconds."""
        self._answered[model].setdefault(reply.version)
        self._whole.labels(model, reply.version).observe(whole)
        for stage, seconds in zip(STAGES_SEEN, (queue, *reply.seconds), strict=True):
            self._stages.labels(model, reply.version, stage).observe(seconds)

    def forget(self) -> None:
        """Ends the series of unloaded versions, but for the last `UNLOADED` of each model."""
        for model, answered in list(self._answered.items()):
            unloaded = [version for version in list(answered) if version not in self._served[model].numbers]
            for version in unloaded[:-UNLOADED]:
                self._whole.remove(model, version)
                for stage in STAGES_SEEN:
                    self._stages.remove(model, version, stage)
                del answered[version]

    def refuse(self, model: str, why: str) -> None:
        """Counts a refusal, by the name of its kind."""
        self._refused.labels(model, why).inc()

    def page(self) -> bytes:
        """All metrics as text."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yields the current state of the processors; Prometheus's library calls it."""
        gauges = {
            "update": ("The update of the version", lambda found: found["update"]),
            "training_step": ("The step of the training that the weights are of", lambda found: found["step"]),
            "weights_age_seconds": (
                "How long ago the weights were read from the model in training",
                lambda found: time.time() - found["read_micros"] / 1e6,
            ),
            "longest_pause_seconds": (
                "For how long an update held requests up at most",
                lambda found: found["longest_pause_micros"] / 1e6,
            ),
            "updates_stopped": ("1: no more updates are taken", lambda found: bool(found["stopped"])),
            "version_gone": ("1: the version is no longer in its folder, and serves on", lambda found: found["gone"]),
        }
        of_models = {  # the newest version is the last one
            "version": ("The newest version that is served", lambda served, infos: list(infos)[-1]),
            "refused_versions": ("Versions that should be served and are not", lambda served, infos: len(served.refused())),
        }
        found = {model: served.infos() for model, served in list(self._served.items())}  # a model may come meanwhile
        for name, (says, value) in of_models.items():
            gauge = GaugeMetricFamily(f"ctrlab_{name}", says, labels=["model"])
            for model, infos in found.items():
                gauge.add_metric([model], value(self._served[model], infos))
            yield gauge
        loads = CounterMetricFamily(
            "ctrlab_version_loads", "Versions that became the newest, or whose files changed", labels=["model"]
        )
        for model, infos in found.items():
            loads.add_metric([model], list(infos.values())[-1]["loads"])
        yield loads
        for name, (says, value) in gauges.items():
            gauge = GaugeMetricFamily(f"ctrlab_{name}", says, labels=["model", "version"])
            for model, infos in found.items():
                for version, info in infos.items():
                    if name != "weights_age_seconds" or info["read_micros"]:
                        gauge.add_metric([model, str(version)], value(info))
            yield gauge
        yield GaugeMetricFamily("ctrlab_requests_inside", "Requests that are worked on or wait", value=self._inside())
        if self._log:
            said = "Requests that should be in the log and are not"
            yield CounterMetricFamily("ctrlab_unlogged_requests", said, value=self._log.left_out)
