"""A light and a heavy model in one process, in one pool of threads or in a group's members. For the lesson on session groups."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from ctrlab.lessons.topics.session_groups import one_request

from ctrlab.lessons.recorder import Recorder
from ctrlab.load import arrivals
from ctrlab.profiles import Profile
from ctrlab.profiling.timing import Interval, now, paired
from ctrlab.server.nodes import nodes

LIGHT, HEAVY = "deepfm", "dien"
ROWS = 200
"""Number of candidates of a request to the heavy model; the light model's has a tenth."""
BUSY = 0.2
"""The fraction of a core that requests to the light model keep busy."""

Ask = Callable[[], object]
Makes = Callable[[int, object], object]
"""(members, lock) -> a router."""


def cores() -> list[list[int]]:
    """The cores of this machine, each as the CPUs that are its threads; CPUs one by one, if there are fewer than two cores."""
    found = [list(core) for node in nodes() for core in node]
    return found if len(found) > 1 else [[cpu] for core in found for cpu in core]


class _Drawn:
    """The latencies of all rounds, drawn as one series."""

    def __init__(self, recorder: Recorder):
        self._recorder, self._numbers = recorder, itertools.count()

    def add(self, latency: float) -> None:
        self._recorder.add(next(self._numbers), latency)


class Models:
    """Two exported models, and processors for them.

    Attributes:
        light, heavy: `one_request.OneRequest`.
    """

    def __init__(self, profile: Profile):
        quick = profile.name == "tiny"
        self._seconds, self._rounds = (0.3, 3) if quick else (2.0, 5)
        self._due: np.ndarray | None = None  # the same requests for all layouts
        with contextlib.ExitStack() as held:
            self.light = held.enter_context(one_request.exported(LIGHT, ROWS // 10, "all", profile.name))
            self.heavy = held.enter_context(one_request.exported(HEAVY, ROWS, "all", profile.name))
            self._held = held.pop_all()

    def opened(self, **configuration) -> dict[str, Ask]:
        """{"light" and "heavy": a function that asks a processor with this configuration}."""
        return {
            name: self._held.enter_context(model.processor(name=model.folder.name, **configuration))
            for name, model in (("light", self.light), ("heavy", self.heavy))
        }

    def routed(self, makes: Makes, sets: Sequence[Sequence[int]]) -> dict[str, Ask]:
        """The same, through the learner's router over processors with one set of CPUs each."""
        members = [self.opened(group={"members": 1, "cpus": [",".join(map(str, cpus))]}) for cpus in sets]
        router = makes(len(members), threading.Condition())

        def ask(name: str) -> Ask:
            return lambda: router.run(lambda member: members[member][name]())

        return {name: ask(name) for name in members[0]}

    def per_second(self, asks: Mapping[str, Ask], callers: int | None = None) -> dict[str, list[float]]:
        """{way: answers per second, one number per round}; by default with one caller per CPU."""
        return paired(
            {way: lambda ask=ask: one_request.closed_loop(ask, self._seconds, callers) for way, ask in asks.items()},
            range(self._rounds),
        )

    def cpu(self, threads: Sequence[int]) -> dict[int, float]:
        """{threads of a session's pool: CPU microseconds of a request to the heavy model}."""
        with contextlib.ExitStack() as held:
            asks = {count: held.enter_context(self.heavy.session((count, count))) for count in threads}
            found = paired({count: lambda ask=ask: self._cpu(ask) for count, ask in asks.items()}, range(self._rounds))
        return {count: 1e6 * float(np.median(times)) for count, times in found.items()}

    def _cpu(self, ask: Ask) -> float:
        before, begun = time.process_time(), now()
        answered = one_request.closed_loop(ask, self._seconds / 3)
        return (time.process_time() - before) / (answered * (now() - begun))

    def p99(self, layouts: Mapping[str, Mapping[str, Ask]], beside: bool, chart=None) -> dict[str, float]:
        """{layout: the light model's p99 in microseconds, of requests that come at random}.

        It is the median of some rounds, in each of which all layouts are measured one after the other. So one stall of the
        machine does not decide.

        Args:
            beside: whether a caller asks the heavy model meanwhile, without a pause. A second one would take turns with it on the
                CPU of a member, and stop there with Python's lock in its hands, for which the light model's caller waits then.
            chart: shows the p99 so far, a series a layout.
        """
        if self._due is None:
            alone = _seconds(next(iter(layouts.values()))["light"])
            self._due = arrivals.poisson(BUSY / alone, self._seconds)
        drawn = {name: _Drawn(Recorder(self._rounds * len(self._due), chart, name)) for name in layouts}
        rounds = {name: lambda name=name: self._p99(layouts[name], beside, drawn[name]) for name in layouts}
        return {name: float(np.median(found)) for name, found in paired(rounds, range(self._rounds)).items()}

    def _p99(self, asks: Mapping[str, Ask], beside: bool, drawn: _Drawn) -> float:
        asks["light"]()
        ends = threading.Event()
        with ThreadPoolExecutor(1) as thread:
            work = thread.submit(_until, ends, asks["heavy"]) if beside else None
            try:
                took = _asked(asks["light"], self._due, drawn)
            finally:
                ends.set()
            if work:
                work.result()
        return float(np.percentile(took, 99))

    def weights_bytes(self) -> int:
        """The bytes of weights of both models' exports."""
        return sum((model.folder / "1" / "assets" / "weights").stat().st_size for model in (self.light, self.heavy))

    def close(self) -> None:
        self._held.close()


def _until(ends: threading.Event, ask: Ask) -> None:
    while not ends.is_set():
        ask()


def _seconds(ask: Ask) -> float:
    """The seconds of a request while nobody else asks: the median of several."""
    found = []
    for _ in range(10):
        begun = now()
        ask()
        found.append(now() - begun)
    return float(np.median(found))


def _asked(ask: Ask, due: np.ndarray, drawn: _Drawn) -> list[float]:
    """Microseconds from each request's due time to its answer."""
    start, took = now(), []
    for _, at in arrivals.paced(due.tolist(), start):
        ask()
        took.append(1e6 * (now() - at))
        drawn.add(took[-1])
    return took


def against(rates: Mapping[str, Sequence[float]], base: str) -> dict[str, Interval]:
    """{way: its rate divided by the base's in the same round}."""
    return {
        way: Interval.of([mine / other for mine, other in zip(found, rates[base])]) for way, found in rates.items() if way != base
    }


def members_of(sets: Sequence[Sequence[int]], policy: str, name: str) -> dict:
    """A processor's configuration: a group of members with these CPUs."""
    cpus = [",".join(map(str, each)) for each in sets]
    return {"intra_op_threads": 1, "group": {"name": name, "members": len(cpus), "policy": policy, "cpus": cpus}}


def shown(configuration: dict) -> str:
    """CPU sets in the form in which a host writes them."""
    return json.dumps(configuration)
