"""Finds the thread counts and buffer depths that train a model fastest on this machine.

    threads    intra-op x inter-op, powers of two up to twice the cores. Each setting needs its own process, because a process
               can't change its threads. Each races TensorFlow's default setting in paired blocks of steps.
    buffers    prefetch x stage, in the process with the best threads, against prefetch 2 without a stage.

Every point is a ratio with its interval. TensorFlow's default stays unless the lower end of the best setting's interval is above
1, and above 1 again in a second race: of many settings some look faster by luck, but rarely twice. On a noisy machine "no
better" is a valid result. Settings that do not fit in the budget are not measured.

>>> tune("dlrm", "all", budget=120).best            # doctest: +SKIP
"""

from __future__ import annotations

import dataclasses
import datetime
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ctrlab import optimizations as ladder
from ctrlab import profiles
from ctrlab.errors import CtrlabError
from ctrlab.profiling.machine import cores, machine
from ctrlab.profiling.processes import Worker, WorkerDied
from ctrlab.profiling.timing import Interval, now, paired
from ctrlab.training.threads import STOCK, Setting, store

COMMAND = (sys.executable, "-m", "ctrlab.training.tune_worker")
BLOCK_SECONDS = 0.3
PAIRS = 6  # the smallest number of pairs that gives a 95 % interval
DEPTHS = (1, 2, 4, 8)
THREADS_SHARE = 0.65  # fraction of the budget

AXES = {"threads": ("intra", "inter"), "buffers": ("prefetch", "stage")}

Watcher = Callable[[str, float], None]  # receives what is measured now, and the fraction of the budget that is spent


@dataclass(frozen=True)
class Point:
    """A measured setting, and its training speed relative to TensorFlow's default: a ratio per pair of blocks."""

    setting: Setting
    pairs: tuple[float, ...]

    @property
    def speedup(self) -> Interval:
        return Interval.of(self.pairs)


@dataclass(frozen=True)
class Tuning:
    """The result of tuning.

    Attributes:
        threads: points of the first search, including TensorFlow's default with a ratio of 1.
        buffers: points of the second search, relative to (prefetch 2, no stage) with the best threads.
    """

    model: str
    rungs: tuple[str, ...]
    best: Setting
    threads: tuple[Point, ...]
    buffers: tuple[Point, ...]
    device: str
    seconds: float

    def surface(self, part: str) -> dict[tuple[int, int], Interval]:
        """{(across, down): speed-up} of "threads" (intra, inter) or "buffers" (prefetch, stage)."""
        across, down = AXES[part]
        return {(getattr(p.setting, across), getattr(p.setting, down)): p.speedup for p in getattr(self, part)}

    def chosen(self, part: str) -> tuple[int, int]:
        """The grid cell of the chosen setting."""
        across, down = AXES[part]
        return getattr(self.best, across), getattr(self.best, down)

    @property
    def is_own(self) -> bool:
        """Whether no setting was certainly faster than TensorFlow's default."""
        return self.best == dataclasses.replace(self.threads[0].setting, prefetch=STOCK.prefetch, stage=STOCK.stage)

    def to_json(self) -> dict:
        return dataclasses.asdict(self) | {
            "setting": dataclasses.asdict(self.best),
            "when": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }


def tune(
    model: str,
    optimizations: str | Sequence[str] = "all",
    *,
    budget: float = 120.0,
    profile: str | None = None,
    watch: Watcher = lambda what, share: None,
    keep: bool = True,
    command: Sequence[str] = COMMAND,
) -> Tuning:
    """Searches until the budget is spent, and stores the result for this machine.

    Args:
        optimizations: the set to train with; the best setting for one set may be wrong for another.
        budget: seconds, including the start of TensorFlow in each process.
        keep: store the result for the rung "threads".
        command: starts a worker.
    Raises:
        UnknownName: no such model, rung or profile. CtrlabError: the model can't be trained, or the budget is too small for a
            pair.
    """
    rungs = tuple(r for r in ladder.resolve(optimizations) if model in ladder.RUNGS[r].models)
    job = {"model": model, "rungs": rungs, "profile": profiles.current(profile).name}
    search = _Search(job, budget, watch, tuple(command))
    threads, best = search.threads()
    buffers, best = search.buffers(best)
    found = Tuning(model, rungs, best, tuple(threads), tuple(buffers), machine().device, search.elapsed)
    if keep:
        store(model, found.to_json())
    return found


def thread_settings(count: int) -> list[Setting]:
    """The grid for a machine of `count` cores: TensorFlow's default (one thread per core, twice) first, then by distance from it.

    >>> [(s.intra, s.inter) for s in thread_settings(1)]
    [(1, 1), (1, 2), (2, 1), (2, 2)]
    """
    powers = [2**i for i in range((2 * count).bit_length()) if 2**i <= 2 * count]
    sizes = sorted({*powers, count})
    own = sizes.index(count)
    near = sorted((abs(i - own) + abs(j - own), i, j) for i in range(len(sizes)) for j in range(len(sizes)))
    return [Setting(sizes[i], sizes[j]) for _, i, j in near]


@dataclass
class _Search:
    job: dict
    budget: float
    watch: Watcher
    command: tuple[str, ...]
    started: float = field(default_factory=now)

    @property
    def elapsed(self) -> float:
        return now() - self.started

    def threads(self) -> tuple[list[Point], Setting]:
        """The measured points and the best setting."""
        own, *others = thread_settings(cores())
        with self._worker(own) as mine:
            steps = self._steps(mine, own)

            def race(setting: Setting) -> tuple[float, ...]:
                self._report(f"{setting.intra} x {setting.inter} threads")
                with self._worker(setting) as other:
                    self._steps(other, setting)  # the first steps trace the graph
                    return _race(mine, own, other, setting, steps)

            points = [_itself(own), *self._raced(others, race, until=THREADS_SHARE * self.budget, least=1)]
            return points, _best(points, race)

    def buffers(self, threads: Setting) -> tuple[list[Point], Setting]:
        """The measured points and the best setting."""
        own = dataclasses.replace(threads, prefetch=STOCK.prefetch, stage=STOCK.stage)
        stages = (0, *DEPTHS) if "stage" in self.job["rungs"] else (0,)
        grid = [dataclasses.replace(threads, prefetch=p, stage=s) for s in stages for p in DEPTHS]
        others = sorted((s for s in grid if s != own), key=lambda s: (s.prefetch != own.prefetch, s.stage, s.prefetch))
        with self._worker(own) as worker:
            steps = self._steps(worker, own)

            def race(setting: Setting) -> tuple[float, ...]:
                self._report(f"prefetch {setting.prefetch}, stage {setting.stage}")
                return _race(worker, own, worker, setting, steps)

            points = [_itself(own), *self._raced(others, race, until=self.budget)]
            return points, _best(points, race)

    def _raced(
        self, settings: Sequence[Setting], race: Callable[[Setting], tuple[float, ...]], until: float, least: int = 0
    ) -> list[Point]:
        """Measures as many settings as time allows, assuming each takes as long as the slowest so far and at least `least`."""
        points, slowest = [], 0.0
        for setting in settings:
            begun = self.elapsed
            if begun + slowest > until and len(points) >= least:
                break
            points.append(Point(setting, race(setting)))
            slowest = max(slowest, self.elapsed - begun)
        return points

    def _worker(self, setting: Setting) -> Worker:
        worker = Worker(f"{self.job['model']} with {setting.intra} x {setting.inter} threads", self.command)
        try:
            worker.ask("open", **self.job, intra=setting.intra, inter=setting.inter)
        except (CtrlabError, WorkerDied):
            worker.__exit__()
            raise
        return worker

    def _steps(self, worker: Worker, setting: Setting) -> int:
        """The number of steps per block."""
        seconds = min(_seconds(worker, setting, 2) / 2 for _ in range(2))
        return max(2, round(BLOCK_SECONDS / seconds))

    def _report(self, what: str) -> None:
        self.watch(what, min(1.0, self.elapsed / self.budget))


def _itself(own: Setting) -> Point:
    return Point(own, (1.0,) * PAIRS)


def _race(mine: Worker, own: Setting, other: Worker, setting: Setting, steps: int) -> tuple[float, ...]:
    """Runs blocks of both in pairs; returns the speed of `setting` relative to `own`."""
    sides = {own: lambda: _seconds(mine, own, steps), setting: lambda: _seconds(other, setting, steps)}
    taken = paired(sides, range(PAIRS))
    return tuple(a / b for a, b in zip(taken[own], taken[setting]))


def _seconds(worker: Worker, setting: Setting, steps: int) -> float:
    return worker.ask("train", steps=steps, prefetch=setting.prefetch, stage=setting.stage)["seconds"]


def _best(points: Sequence[Point], race: Callable[[Setting], tuple[float, ...]]) -> Setting:
    """The fastest setting that is certainly faster than the first one (TensorFlow's default), confirmed by a second race."""
    sure = sorted((p for p in points[1:] if p.speedup.low > 1.0), key=lambda p: -p.speedup.median)
    return next((p.setting for p in sure if Interval.of(race(p.setting)).low > 1.0), points[0].setting)
