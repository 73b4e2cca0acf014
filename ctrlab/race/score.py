"""Computes from a race's plain numbers: seconds on the contest's scale, ratios, and whether the AUC is high enough."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from ctrlab import optimizations as ladder
from ctrlab.profiling.timing import CONFIDENCE, Comparison, Interval
from ctrlab.race import contest
from ctrlab.race.result import ModelRace, RaceResult, Variant

STANDARD_DEVIATIONS = 3


@dataclass(frozen=True)
class Verdict:
    """Whether a variant is valid, and if not, why, in one sentence."""

    passed: bool
    reason: str = ""


def thresholds(entry: ModelRace) -> dict[str, float]:
    """The minimum AUC of each label: the baseline's mean over its seeds minus three standard deviations, or the contest's bar."""
    if entry.bar is not None:
        return dict.fromkeys(entry.seed_auc, entry.bar)
    return {
        label: statistics.fmean(values) - STANDARD_DEVIATIONS * (statistics.stdev(values) if len(values) > 1 else 0.0)
        for label, values in entry.seed_auc.items()
    }


def verdict(entry: ModelRace, variant: Variant) -> Verdict:
    """Whether `variant` is valid: it must have finished, with every label's AUC at or above its threshold."""
    if variant.error:
        return Verdict(False, variant.error)
    if not entry.seed_auc:
        return Verdict(False, f"The baseline of {entry.model} did not finish, so there is no AUC to hold against.")
    for label, least in thresholds(entry).items():
        if not variant.auc[label] >= least:  # also true for NaN
            return Verdict(
                False,
                f"The AUC must stay at or above {least:.4f}; {entry.model} with {variant.optimizations!r} came to "
                f"{variant.auc[label]:.4f} for label {label!r}.",
            )
    return Verdict(True)


def contest_seconds(entry: ModelRace, variant: Variant) -> float:
    """Training seconds, scaled to the contest's number of steps."""
    return sum(variant.seconds) / entry.steps * contest.STEPS[entry.model]


def floor_seconds(entry: ModelRace) -> float:
    """The least time that the contest's number of steps can take on this machine."""
    return entry.floor * contest.STEPS[entry.model]


def percent_of_floor(entry: ModelRace, variant: Variant) -> float:
    """100 if training takes exactly the time of the floor."""
    return 100 * floor_seconds(entry) / contest_seconds(entry, variant)


def gap_closed(entry: ModelRace, variant: Variant) -> float | None:
    """How much of the gap between the best stock TensorFlow and the floor `variant` closes, in percent; negative if slower.

    None if the set "stock" was not raced, or has no gap.
    """
    rival = next((v for v in entry.variants if v.optimizations == ladder.STOCK.name and not v.error), None)
    if rival is None or rival is variant or variant.error:
        return None
    best, least = contest_seconds(entry, rival), floor_seconds(entry)
    return 100 * (best - contest_seconds(entry, variant)) / (best - least) if best > least else None


def speedup(entry: ModelRace, optimizations: str) -> Interval | None:
    """The baseline's seconds over the set's, paired block by block; None if one of them did not finish."""
    return _ratio([entry], optimizations)


def total_seconds(result: RaceResult, optimizations: str) -> float | None:
    """The contest's score of a set over the finished models; None if one of them failed."""
    pairs = [(m, m.variant(optimizations)) for m in result.models]
    if not pairs or not all(verdict(m, v).passed for m, v in pairs):
        return None
    return sum(contest_seconds(m, v) for m, v in pairs)


def total_speedup(result: RaceResult, optimizations: str) -> Interval | None:
    """The baseline's total over the set's. Round i sums block i of every model, so every round is a small race."""
    return _ratio(result.models, optimizations)


def interval_note(result: RaceResult) -> str:
    """What the brackets after a ratio mean: with few blocks there is no 95 % interval."""
    blocks = min((len(m.blocks) for m in result.models), default=0)
    if blocks and Interval.of([1.0] * blocks).coverage < CONFIDENCE:
        return f"in brackets the least and the greatest of {blocks} blocks, which are too few for a 95 % interval"
    return "in brackets the 95 % interval over paired blocks"


def failures(result: RaceResult) -> list[str]:
    """One sentence per invalid variant."""
    verdicts = [verdict(m, v) for m in result.models for v in m.variants]
    return [v.reason for v in verdicts if not v.passed]


def _ratio(entries, optimizations: str) -> Interval | None:
    sets = dict.fromkeys((contest.BASELINE, optimizations))
    if not entries or any(m.variant(s).error for m in entries for s in sets):
        return None
    samples = {s: [sum(block) for block in zip(*(_weighted(m, m.variant(s)) for m in entries))] for s in sets}
    return Comparison.of_samples(samples, baseline=contest.BASELINE).ratio(optimizations)


def _weighted(entry: ModelRace, variant: Variant) -> list[float]:
    """Each block's seconds, scaled to the contest's number of steps."""
    return [seconds / steps * contest.STEPS[entry.model] for seconds, steps in zip(variant.seconds, entry.blocks)]
