"""The counts of a fleet's front, in Prometheus's format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ctrlab.fleet.instances.instance import Instance, State


class Metrics(Collector):
    """Latencies and answers by arm and instance, second tries, failures; and the state of the instances."""

    def __init__(self, instances: Sequence[Instance]):
        self._instances = instances
        self._registry = CollectorRegistry()

        def counter(name: str, says: str, *labels: str) -> Counter:
            return Counter(f"ctrlab_fleet_{name}", says, labels, registry=self._registry)

        seconds = tuple(float(f"{digit}e{power}") for power in range(-4, 2) for digit in (1, 2, 3, 4, 6))
        self._latency = Histogram(
            "ctrlab_fleet_request_seconds",
            "Latency of answered requests, second tries included",
            ["arm"],
            buckets=seconds,
            registry=self._registry,
        )
        self._answers = counter("answers", "Answers", "arm", "instance", "status")
        self._again = counter("second_tries", "Requests that were sent once more, elsewhere", "arm", "instance", "why")
        self._failed = counter("failed_requests", "Requests that no instance answered", "arm", "why")
        self._refused = counter("refused_requests", "Requests that were sent to none", "why")
        self._registry.register(self)

    def answered(self, arm: str, instance: str, status: int, seconds: float) -> None:
        self._answers.labels(arm, instance, status).inc()
        self._latency.labels(arm).observe(seconds)

    def again(self, arm: str, instance: str, why: str) -> None:
        """Counts a second try: an instance gave no answer, and another one is asked."""
        self._again.labels(arm, instance, why).inc()

    def failed(self, arm: str, why: str) -> None:
        self._failed.labels(arm, why).inc()

    def refuse(self, why: str) -> None:
        self._refused.labels(why).inc()

    def page(self) -> bytes:
        """All metrics as a page that Prometheus reads."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yields the current states of the instances; Prometheus's library calls it."""
        state = GaugeMetricFamily("ctrlab_fleet_state", "1: the instance is in this state", labels=["arm", "instance", "state"])
        inside = GaugeMetricFamily("ctrlab_fleet_inside", "Requests inside", labels=["arm", "instance"])
        starts = CounterMetricFamily("ctrlab_fleet_starts", "Processes of the instance so far", labels=["arm", "instance"])
        for each in self._instances:
            for one in State:
                state.add_metric([each.arm, each.name, one.value], float(each.state is one))
            inside.add_metric([each.arm, each.name], each.inside)
            starts.add_metric([each.arm, each.name], each.starts)
        yield from (state, inside, starts)
