"""The only stopwatch of the lab.

    t(call i)   a block of `inner` calls, each on fresh inputs, each result consumed: the block's seconds divided by `inner`
    pair i      one block of every variant, one after the other, in random order: A B, B A, B A, ...
    ratio       median over pairs of baseline seconds / variant seconds, with a 95 % interval

Machines are noisy and drift. The blocks of a pair meet the same noise, so ratios are reliable and absolute times are not. The
interval consists of order statistics. Chance alone decides which variant of a pair meets the better half of it. So equal variants
win each pair with probability 1/2, however the machine drifts, and the interval needs no assumption about the noise.

What holds within a run says nothing about another one: between runs the machine, the memory's layout and the threads' places
change. So only variants of one run are compared; measurements of two runs, and intervals, refuse it. Too few pairs have no 95 %
interval. Then the widest one (smallest and largest pair) is given, and every verdict is "inconclusive".

This file is not a benchmark registry, not a reporter and not a plotter.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import math
import random
import statistics
import time
import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn, TypeVar

from ctrlab import profiles
from ctrlab.errors import CtrlabError, choose
from ctrlab.plain import Plain
from ctrlab.profiling.consuming import consume
from ctrlab.profiling.machine import Machine, machine
from ctrlab.profiling.work import Ceilings, Work, bound

Verdict = Literal["yes", "no", "inconclusive"]
Result = TypeVar("Result")
Side = TypeVar("Side", bound=Hashable)

CONFIDENCE = 0.95
MIN_SECONDS = 0.02  # a timed block: 20 ms is far above the clock's resolution and the scheduler's interruptions
TINY_MIN_SECONDS = 0.002  # at `tiny` no speed is judged
MAX_INNER = 256  # the inputs of a block are made before it, so all of them are in memory at once
WARM_UPS = 3
CURE = "measure both in one `compare`, and read `ratio(variant, to=other)`"

_coin = random.Random()
"""Draws the order within a pair. Its own generator: a lesson's seed would give each run the same order."""


class _InPairs:
    """What is compared only in pairs: no order of two such values is defined."""

    def __lt__(self, other: object) -> NoReturn:
        what = type(self).__name__.lower()
        raise CtrlabError(f"No {what} is less or more than another, since the machine changes between two runs: {CURE}.")

    __le__ = __gt__ = __ge__ = __lt__


@dataclass(frozen=True)
class Interval(_InPairs):
    """A median with its interval; `coverage` is the probability that the interval contains the true median (about .95 or more
    from six samples on)."""

    median: float
    low: float
    high: float
    coverage: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Interval:
        """The median of `samples` and the narrowest symmetric order statistics with at least 95 % coverage (otherwise: all
        samples).

        The number of samples below the true median is binomial(n, 1/2). Dropping `cut` samples at each end loses a coverage of
        2 * P(fewer than cut + 1 below).
        """
        if not samples:
            raise CtrlabError("An interval needs at least one sample; none were given.")
        ordered, n = sorted(samples), len(samples)
        outside = [sum(math.comb(n, k) for k in range(cut + 1)) / 2 ** (n - 1) for cut in range((n + 1) // 2)]
        cut = max((i for i, missed in enumerate(outside) if missed <= 1 - CONFIDENCE), default=0)
        return cls(statistics.median(ordered), ordered[cut], ordered[n - 1 - cut], max(0.0, 1 - outside[cut]))

    def __str__(self) -> str:
        return f"{self.median:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True)
class Measurement(_InPairs, Plain):
    """The time of one variant, and the conditions of its measurement.

    Attributes:
        name: the variant.
        samples: seconds per call, one number per block, in the order of the pairs.
        first_call: seconds of the very first call (tracing, compiling, loading); not part of `samples`.
        device, threads, profile, versions: see machine.Machine; the profile's name.
        work: the least work of a call, if known.
        bound: seconds that `work` takes at this machine's ceilings, if known.
        run: identifies the run, whose variants were measured in pairs; empty in a record that does not say it.
    """

    name: str
    samples: tuple[float, ...]
    first_call: float | None
    device: str
    threads: int
    profile: str
    versions: dict[str, str] = field(default_factory=dict)
    work: Work | None = None
    bound: float | None = None
    run: str = ""

    @functools.cached_property
    def interval(self) -> Interval:
        return Interval.of(self.samples)

    @property
    def median(self) -> float:
        return self.interval.median

    @property
    def low(self) -> float:
        return self.interval.low

    @property
    def high(self) -> float:
        return self.interval.high

    @property
    def percent_of_bound(self) -> float | None:
        """100 if a call takes exactly the time that the machine's ceilings allow; None without a bound."""
        return None if self.bound is None else 100 * self.bound / self.median

    def to_json(self) -> dict:
        """A JSON-compatible dict. It also contains derived numbers for human readers; `from_json` ignores them."""
        derived = {"median": self.median, "low": self.low, "high": self.high, "percent_of_bound": self.percent_of_bound}
        return super().to_json() | derived


@dataclass(frozen=True)
class Comparison(Plain):
    """Variants measured in pairs, in one run: sample i of every measurement comes from round i.

    Raises:
        UnknownName: the baseline is not a variant. CtrlabError: the measurements are of two runs, or differ in their number of
            samples.
    """

    measurements: dict[str, Measurement]
    baseline: str

    def __post_init__(self):
        choose("baseline", self.baseline, self.measurements)
        first = self[self.baseline]
        if other := next((name for name, m in self.measurements.items() if m.run != first.run), None):
            raise CtrlabError(f"Variants of a comparison are of one run; {self.baseline!r} and {other!r} are of two: {CURE}.")
        counts = {name: len(m.samples) for name, m in self.measurements.items()}
        if len(set(counts.values())) != 1:
            raise CtrlabError(f"Paired variants need equally many samples; received {counts}.")

    def __getitem__(self, name: str) -> Measurement:
        return self.measurements[choose("variant", name, self.measurements)]

    def ratio(self, name: str, *, to: str | None = None) -> Interval:
        """The speed of `name` relative to variant `to` (default: the baseline), over pairs: 2 means half the time. A
        difference is shown only if the interval does not contain 1.
        """
        other = self.baseline if to is None else to
        return Interval.of([b / v for b, v in zip(self[other].samples, self[name].samples)])

    def verdict(self, name: str, at_least: float = 1.0) -> Verdict:
        """Whether `name` is at least `at_least` times as fast as the baseline. The lower end of the interval must show it."""
        ratio = self.ratio(name)
        if ratio.coverage < CONFIDENCE:
            return "inconclusive"
        if ratio.low >= at_least:
            return "yes"
        return "no" if ratio.high < at_least else "inconclusive"

    def to_json(self) -> dict:
        ratios = {name: dataclasses.asdict(self.ratio(name)) for name in self.measurements}
        return {
            "baseline": self.baseline,
            "measurements": {name: m.to_json() for name, m in self.measurements.items()},
            "ratios": ratios,
        }

    @classmethod
    def of_samples(
        cls,
        samples: Mapping[str, Sequence[float]],
        *,
        baseline: str,
        where: Machine | None = None,
        profile: str | None = None,
        first_calls: Mapping[str, float] | None = None,
        work: Work | Mapping[str, Work] | None = None,
        ceilings: Ceilings | None = None,
    ) -> Comparison:
        """A comparison from seconds that were measured elsewhere, in pairs (in the race's worker processes)."""
        where = where or machine()
        profile, run = profiles.current(profile).name, uuid.uuid4().hex
        works = work if isinstance(work, Mapping) else dict.fromkeys(samples, work)
        measurements = {}
        for name, seconds in samples.items():
            needed = works.get(name)
            measurements[name] = Measurement(
                name=name,
                samples=tuple(float(s) for s in seconds),
                first_call=(first_calls or {}).get(name),
                device=where.device,
                threads=where.threads,
                profile=profile,
                versions=where.versions,
                work=needed,
                bound=bound(needed, ceilings) if needed and ceilings else None,
                run=run,
            )
        return cls(measurements, baseline)


def now() -> float:
    """Seconds of the clock that times everything here; only differences are meaningful."""
    return time.perf_counter()


def timed(call: Callable[[], Result]) -> tuple[float, Result]:
    """Times one call: its seconds, and its result."""
    start = now()
    result = call()
    return now() - start, result


def paired(sides: Mapping[Side, Callable[[], float | None]], rounds: Iterable) -> dict[Side, list[float]]:
    """Runs one block of every side per round, one after the other, in random order: A B, B A, B A, ...

    Args:
        sides: functions that run a block, here or in a worker process, and return its seconds, or None to leave it out.
        rounds: an iterable with one element per round.
    Returns:
        {side: seconds of its blocks}, in the order of the rounds.
    """
    order, samples = list(sides), {side: [] for side in sides}
    for _ in rounds:
        _coin.shuffle(order)
        for side in order:
            if (seconds := sides[side]()) is not None:
                samples[side].append(seconds)
    return samples


def compare(
    variants: Mapping[str, Callable],
    make_inputs: Callable[[int], tuple],
    *,
    baseline: str,
    repetitions: int | None = None,
    min_seconds: float | None = None,
    work: Work | Mapping[str, Work] | None = None,
    ceilings: Ceilings | None = None,
    clock: Callable[[], float] = now,
) -> Comparison:
    """Times variants of one computation against each other.

    Args:
        variants: name -> function of the inputs; its result is consumed (see `consume`).
        make_inputs: number of the call -> tuple of arguments, new objects for each number. It is called outside the timed blocks,
            separately for each variant, so that no variant profits from a cache or from what another one has overwritten.
        baseline: the variant that ratios refer to.
        repetitions: number of pairs; default: the current profile's.
        min_seconds: minimum duration of a timed block; fast functions are called several times per block, and variants of nearly
            the same speed equally often. Default: 20 ms.
        work, ceilings: the least work of one call (one for all variants, or by name) and roofline.ceilings(). With both, each
            measurement has its percent_of_bound.
        clock: returns seconds.
    Raises:
        UnknownName: the baseline is not a variant. CtrlabError: make_inputs returns no tuple. Errors of a variant pass through.

    >>> fast, slow = (lambda n: sum(range(n))), (lambda n: sum(range(5 * n)))
    >>> compare({"slow": slow, "fast": fast}, lambda i: (10_000 + i,), baseline="slow").ratio("fast").median > 2
    True
    """
    choose("baseline", baseline, variants)
    profile = profiles.current()
    if min_seconds is None:
        min_seconds = TINY_MIN_SECONDS if profile.name == "tiny" else MIN_SECONDS
    runners = {name: _Runner(fn, make_inputs, clock) for name, fn in variants.items()}
    for runner in runners.values():
        runner.warm_up()
    fastest = min(runner.seconds for runner in runners.values())
    for runner in runners.values():
        runner.inner = _calls(min_seconds, runner.seconds, fastest)
    from ctrlab.profiling.progress import track  # rich, which the environments of other libraries lack

    rounds = track(range(repetitions or profile.repetitions), "Timing")
    samples = paired({name: runner.block for name, runner in runners.items()}, rounds)
    first_calls = {name: runner.first_call for name, runner in runners.items()}
    return Comparison.of_samples(samples, baseline=baseline, first_calls=first_calls, work=work, ceilings=ceilings)


def measure(fn: Callable, make_inputs: Callable[[int], tuple], *, name: str = "", **options) -> Measurement:
    """Times one function: `compare` with a single variant; takes its options."""
    name = name or getattr(fn, "__name__", "function")
    return compare({name: fn}, make_inputs, baseline=name, **options)[name]


def _calls(least: float, seconds: float, fastest: float) -> int:
    """The calls in a block of at least `least` seconds, for a variant that takes `seconds`. They are those of the fastest
    variant, or of one 2, 4, 8, ... times as slow. So equal variants have equally many, because the number of inputs in memory
    changes the time of a call.
    """
    if seconds <= 0:
        return MAX_INNER
    step = fastest * 2 ** math.floor(math.log2(seconds / fastest)) if fastest > 0 else seconds
    return min(MAX_INNER, max(1, math.ceil(least / step)))


class _Runner:
    """Warm-up and timed blocks of one variant; its inputs are numbered from the first call to the last."""

    def __init__(self, fn: Callable, make_inputs: Callable[[int], tuple], clock: Callable[[], float]):
        self.fn, self.make_inputs, self.clock = fn, make_inputs, clock
        self.made, self.inner, self.first_call, self.seconds = 0, 1, 0.0, 0.0

    def warm_up(self):
        """Times the first call (compilation) separately, and then the fastest of some calls."""
        self.first_call = self._timed(1)
        self.seconds = min(self._timed(1) for _ in range(WARM_UPS))

    def block(self) -> float:
        return self._timed(self.inner) / self.inner

    def _timed(self, calls: int) -> float:
        inputs = [self._fresh() for _ in range(calls)]
        collecting = gc.isenabled()
        gc.disable()
        try:
            start = self.clock()
            for arguments in inputs:
                consume(self.fn(*arguments))
            return self.clock() - start
        finally:
            if collecting:
                gc.enable()

    def _fresh(self) -> tuple:
        arguments = self.make_inputs(self.made)
        if not isinstance(arguments, tuple):
            raise CtrlabError(f"make_inputs must return a tuple of arguments; it returned a {type(arguments).__name__}.")
        self.made += 1
        return arguments
