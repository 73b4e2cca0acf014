"""Session groups beside sessions of TensorFlow's own, on one exported graph.

    default            a session as TensorFlow makes it: a thread per core that runs ops, and as many among which an op splits
    tuned              a session with those thread counts of `tunings` that answered most in a trial
    one pool           our processor, with a thread per core among which an op splits
    caller's thread    our processor, with the caller's thread alone
    group              our processor, a member per core with one thread and a CPU of its own

`throughput` has one caller per core, each of which asks again after its answer. A session's calls read no request and write
no answer, the processor's do both. So the gain of a group is its comparison with the other ways of the processor.

`pools` are sessions with more threads than cores. From them `splitting` estimates the gain on a larger machine.

`beside` has a light model with few requests at scheduled times, while one caller per core asks a heavy model without a pause.
`changing` has the light model alone, while it gets a new version over and over.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from ctrlab.lessons.topics.session_groups.one_request import Ask, closed_loop, cpus, exported

from ctrlab.embedding.formats.folder_lock import FolderLock
from ctrlab.load import arrivals
from ctrlab.plain import Plain
from ctrlab.profiles import current
from ctrlab.profiling.progress import track
from ctrlab.profiling.timing import now, paired
from ctrlab.server.exported import Exported
from ctrlab.serving.versions import hide, new_version
from studies.groups.splitting import Pools, measure

SESSIONS, PROCESSORS = ("default", "tuned"), ("one pool", "caller's thread", "group")
"""The sides; the first of each kind uses the defaults, the second is tuned."""
BUSY = 0.1
"""The fraction of a core that the light model's requests keep busy."""
CHANGES_SECONDS = 1.0
"""Seconds between two new versions."""


@dataclass(frozen=True)
class GroupsFound(Plain):
    """The measurements. Lists have one number per round, and number i of all sides comes from round i.

    Attributes:
        model: the model of `throughput`, at `rows` candidates. light, heavy: the models of the other parts.
        tuning: intra-op and inter-op threads of the tuned session.
        per_second: {side: requests per second}.
        beside: {layout: p99 of the light model beside the heavy one, seconds}; heavy: requests per second that the heavy model
            answered meanwhile.
        alone: {layout: the light model's p99 without the heavy one}.
        changing: {layout: its p99 while versions change}; versions: total number of new versions.
        pools: measurements of `model` in sessions whose pools have more and more threads.
    """

    model: str
    light: str
    heavy: str
    rows: int
    tuning: tuple[int, int]
    per_second: dict[str, list[float]]
    beside: dict[str, list[float]]
    heavy_per_second: dict[str, list[float]]
    alone: dict[str, list[float]]
    changing: dict[str, list[float]]
    versions: int
    pools: Pools


def tunings() -> list[tuple[int, int]]:
    """Thread counts that a team would try: intra-op, inter-op."""
    n = len(cpus())
    return list(dict.fromkeys([(1, 1), (1, n), (n, 1), (1, 2 * n)]))


def members(**more) -> dict:
    """The configuration of a group with one member per CPU."""
    return {"members": len(cpus()), "cpus": [str(cpu) for cpu in cpus()], **more}


LAYOUTS: dict[str, Callable[[], dict]] = {
    "a pool of all cores each": lambda: {"intra_op_threads": 0},
    "the caller's thread": dict,
    "group, least in flight": lambda: {"group": members(name="of bench", policy="least_in_flight")},
    "group, by model": lambda: {"group": members(name="by model, of bench", policy="by_model")},
}
"""Ways to give two models' processors threads and CPUs: {name: a function that makes their configuration}."""


def bench_groups(
    model: str,
    light: str,
    heavy: str,
    *,
    rows: int = 200,
    seconds: float = 4.0,
    optimizations: str = "all",
    profile: str | None = None,
) -> GroupsFound:
    """Runs all comparisons.

    Args:
        rows: candidates per request; the light model's requests have a tenth.
        seconds: duration of each side in a round.
        optimizations: optimizations of the exports.
    """
    rounds = current(profile).repetitions
    with exported(model, rows, optimizations, profile) as one:
        tuning, per_second = throughput(one, seconds, rounds)
        pools = measure(lambda threads: one.session((threads, threads)), closed_loop, seconds, rounds)
    less = max(1, rows // 10)
    with exported(light, less, optimizations, profile) as low, exported(heavy, rows, optimizations, profile) as high:
        alone, both, answered = beside(low, high, seconds, rounds)
        changes, versions = changing(low, seconds, rounds)
    return GroupsFound(model, light, heavy, rows, tuning, per_second, both, answered, alone, changes, versions, pools)


def throughput(model: Exported, seconds: float, rounds: int) -> tuple[tuple[int, int], dict[str, list[float]]]:
    """The tuning with most answers in a trial, and {side: requests per second}."""
    with contextlib.ExitStack() as held:
        tried = {counts: held.enter_context(model.session(counts)) for counts in tunings()}
        trial = paired({counts: lambda ask=ask: closed_loop(ask, seconds) for counts, ask in tried.items()}, range(2))
        best = max(trial, key=lambda counts: max(trial[counts]))
    with contextlib.ExitStack() as held:
        sides = {
            "default": held.enter_context(model.session()),
            "tuned": held.enter_context(model.session(best)),
            "one pool": held.enter_context(model.processor(intra_op_threads=0)),
            "caller's thread": held.enter_context(model.processor()),
            "group": held.enter_context(model.processor(group=members())),
        }
        rates = {name: lambda ask=ask: closed_loop(ask, seconds) for name, ask in sides.items()}
        return best, paired(rates, track(range(rounds), "Throughput"))


def open_loop(ask: Ask, rate: float, seconds: float, seed: int) -> float:
    """The 99th percentile of the seconds from a request's due time to its answer, for one caller."""
    took = []
    for _, due in arrivals.paced(arrivals.poisson(rate, seconds, seed)):
        ask()
        took.append(now() - due)
    return float(np.quantile(took, 0.99)) if took else 0.0


def _rate(ask: Ask) -> float:
    """Requests per second that keep the fraction `BUSY` of a core busy."""
    ask()
    took = []
    for _ in range(20):
        start = now()
        ask()
        took.append(now() - start)
    return BUSY / float(np.median(took))


def beside(
    light: Exported, heavy: Exported, seconds: float, rounds: int
) -> tuple[dict[str, list[float]], dict[str, list[float]], dict[str, list[float]]]:
    """The light model's p99 alone and beside the heavy one, and the heavy one's answers per second: {layout: one number per
    round} each.
    """
    answered: dict[str, list[float]] = {name: [] for name in LAYOUTS}
    with contextlib.ExitStack() as held:
        pairs = {
            name: tuple(held.enter_context(each.processor(**make(), name=each.folder.name)) for each in (light, heavy))
            for name, make in LAYOUTS.items()
        }
        rate = _rate(next(iter(pairs.values()))[0])
        by_itself = {name: lambda ask=low: open_loop(ask, rate, seconds, 0) for name, (low, _) in pairs.items()}
        alone = paired(by_itself, track(range(rounds), "Alone"))

        def both(name: str) -> float:
            low, high = pairs[name]
            with ThreadPoolExecutor(1) as threads:
                work = threads.submit(closed_loop, high, seconds)
                found = open_loop(low, rate, seconds, 1)
                answered[name].append(work.result())
            return found

        return alone, paired({name: lambda name=name: both(name) for name in pairs}, track(range(rounds), "Beside")), answered


def changing(model: Exported, seconds: float, rounds: int) -> tuple[dict[str, list[float]], int]:
    """The p99 while a new version comes every `CHANGES_SECONDS`, {layout: one number per round}; and the number of new
    versions.
    """
    came = 0

    def publish(ends: threading.Event) -> None:
        nonlocal came
        while not ends.wait(CHANGES_SECONDS):
            with new_version(model.folder) as (number, part):
                shutil.copytree(model.folder / "1", part, dirs_exist_ok=True)
            came += 1
            if number > 3:  # the one before may be served still
                with FolderLock(model.folder):
                    hide(model.folder, number - 2)

    def measured(ask: Ask, rate: float) -> float:
        ends = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            work = threads.submit(publish, ends)
            try:
                return open_loop(ask, rate, seconds, 2)
            finally:
                ends.set()
                work.result()

    found: dict[str, list[float]] = {name: [] for name in LAYOUTS}
    for i in track(range(rounds), "Versions"):
        names = list(LAYOUTS)
        for name in names[i % len(names) :] + names[: i % len(names)]:
            with model.processor(**LAYOUTS[name](), poll_seconds=0.1) as ask:
                found[name].append(measured(ask, _rate(ask)))
    return found, came
