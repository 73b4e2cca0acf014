"""What a server counts, in Prometheus's format."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ctrlab.server.request_log import RequestLog
from ctrlab.serving.processor import Processor

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class Metrics(Collector):
    """Latencies by model and stage; answers and refusals; and, asked of the processors, what they serve.

    A stage is "queue", until a thread takes a request, or "process", until it has the answer's bytes.
    """

    def __init__(self, processors: Mapping[str, Processor], log: RequestLog | None = None):
        self._processors, self._log = processors, log
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "ctrlab_request_seconds", "Latency of answered requests", ["model", "stage"], buckets=SECONDS, registry=self._registry
        )
        self._refused = Counter(
            "ctrlab_refused_requests", "Requests without an answer", ["model", "why"], registry=self._registry
        )
        self._registry.register(self)

    def answered(self, model: str, queue: float, process: float) -> None:
        """Counts an answer; the two stages in seconds."""
        self._seconds.labels(model, "queue").observe(queue)
        self._seconds.labels(model, "process").observe(process)

    def refuse(self, model: str, why: str) -> None:
        """Counts a refusal, by the name of its kind."""
        self._refused.labels(model, why).inc()

    def page(self) -> bytes:
        """All of it as text."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """What the processors say now: Prometheus's library calls it."""
        gauges = {
            "version": ("The version that is served", lambda found: found["version"]),
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
            "refused_versions": ("Versions in the folder that are not served", lambda found: len(found["refused"])),
        }
        found = {name: processor.info() for name, processor in self._processors.items()}
        for name, (says, value) in gauges.items():
            gauge = GaugeMetricFamily(f"ctrlab_{name}", says, labels=["model"])
            for model, info in found.items():
                if name == "weights_age_seconds" and not info["read_micros"]:
                    continue
                gauge.add_metric([model], value(info))
            yield gauge
        if self._log:
            said = "Requests that should be in the log and are not"
            yield CounterMetricFamily("ctrlab_unlogged_requests", said, value=self._log.left_out)
