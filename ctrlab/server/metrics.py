"""What a server counts, in Prometheus's format."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ctrlab.server.request_log import RequestLog
from ctrlab.server.served import ServedModel

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class Metrics(Collector):
    """Latencies by model, version and stage; answers and refusals; and, asked of the processors, what they serve.

    A stage is "queue", until a thread takes a request, or "process", until it has the answer's bytes.
    """

    def __init__(self, served: Mapping[str, ServedModel], log: RequestLog | None = None):
        self._served, self._log = served, log
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "ctrlab_request_seconds",
            "Latency of answered requests",
            ["model", "version", "stage"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._refused = Counter(
            "ctrlab_refused_requests", "Requests without an answer", ["model", "why"], registry=self._registry
        )
        self._registry.register(self)

    def answered(self, model: str, version: int, queue: float, process: float) -> None:
        """Counts an answer; the two stages in seconds."""
        self._seconds.labels(model, version, "queue").observe(queue)
        self._seconds.labels(model, version, "process").observe(process)

    def refuse(self, model: str, why: str) -> None:
        """Counts a refusal, by the name of its kind."""
        self._refused.labels(model, why).inc()

    def page(self) -> bytes:
        """All of it as text."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """What the processors say now: Prometheus's library calls it."""
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
        }
        of_models = {
            "version": ("The newest version that is served", lambda served, infos: max(infos)),
            "refused_versions": ("Versions that should be served and are not", lambda served, infos: len(served.refused())),
        }
        found = {model: served.infos() for model, served in self._served.items()}
        for name, (says, value) in of_models.items():
            gauge = GaugeMetricFamily(f"ctrlab_{name}", says, labels=["model"])
            for model, infos in found.items():
                gauge.add_metric([model], value(self._served[model], infos))
            yield gauge
        for name, (says, value) in gauges.items():
            gauge = GaugeMetricFamily(f"ctrlab_{name}", says, labels=["model", "version"])
            for model, infos in found.items():
                for version, info in infos.items():
                    if name != "weights_age_seconds" or info["read_micros"]:
                        gauge.add_metric([model, str(version)], value(info))
            yield gauge
        if self._log:
            said = "Requests that should be in the log and are not"
            yield CounterMetricFamily("ctrlab_unlogged_requests", said, value=self._log.left_out)
