"""The planted model: what a generated label depends on. Its AUC is the ceiling for all models.

A logit is a sum of parts. Each part is a fixed function of the row as a model sees it; its effects come from hashing, not from
the seed of the rows. Each part is centred and scaled to the share of the logit's variance in the data set's Plan:

    first order   an effect of each frequent id, and a wave over each number
    pairs         u(a) . v(b) for pairs of columns, centred so that neither column alone has any effect
    interest      whether any event in the history equals the target
    order         whether the history's *last* event equals the target, minus the fraction of all events that do
    rare          an effect of each id behind the first RARE of its column: seen rarely, so slow to learn
    drift         effects that change periodically over the rows, with a period of PERIOD rows

With two tasks, the share `common` of their variance comes from one common logit. The Plan of a data set is fixed in its module:
later claims about embeddings must not tune it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ctrlab.data.marginals import Statistics
from ctrlab.data.words import Ragged, mix, salt
from ctrlab.schema import Numeric, Schema

RARE = 256
PERIOD = 1_000_000
PARTS = ("first order", "pairs", "interest", "order", "rare", "drift")


@dataclass(frozen=True)
class Plan:
    """How the labels of one data set are made.

    Attributes:
        deviation: standard deviation of each task's logit; it determines the ceiling.
        shares: fractions of the logit's variance, in the order of PARTS; they sum to 1.
        first: columns with their own effects. Likewise pairs, interest (target, history), rare and drift.
        common: the share of variance that two tasks have in common.
        given: {task: another task that must have happened first}.
        paired: rows 2j and 2j + 1 share a history, and exactly one of them is positive.
    """

    deviation: dict[str, float]
    shares: tuple[float, ...]
    first: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...] = ()
    interest: tuple[tuple[str, str], ...] = ()
    rare: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    common: float = 0.0
    given: dict[str, str] = field(default_factory=dict)
    paired: bool = False


class Planted:
    """The planted model of one data set. Its parts are scaled on its own sample of rows.

    Args:
        values: the sample's columns as the generator draws them (see `words.to_table`), without labels.
    """

    def __init__(self, plan: Plan, schema: Schema, figures: Statistics, values: dict[str, np.ndarray | Ragged]):
        self.plan, self.schema = plan, schema
        self.weights = dict(zip(PARTS, np.sqrt(plan.shares)))
        self._seen = {c.name: _moments(seen(c, values[c.name])) for c in schema.numerics}
        self._centres: dict[tuple, float] = {}
        rows = len(values[schema.features[0].name])
        index = np.linspace(0, PERIOD, rows)
        for source in self._sources():
            for a, b in plan.pairs:
                self._centre(values, self._vector_places(source, a, b))
            self._centre(values, self._drift_places(source))
        self._scales = {(t, p): _moments(self._mixed(t, p, values, index)) for t in plan.deviation for p in self._parts()}
        self.intercept = dict.fromkeys(plan.deviation, 0.0)
        for task in plan.deviation:
            if not plan.paired:
                self.intercept[task] = self._solve_intercept(task, figures.positive[task], values, index)

    def logit(self, task: str, values: dict[str, np.ndarray | Ragged], index: np.ndarray) -> np.ndarray:
        """float64 [B]; `index` [B] is each row's position in the stream of rows, which serves as time."""
        total = sum(self.weights[part] * self.part(task, part, values, index) for part in self._parts())
        return self.intercept[task] + self.plan.deviation[task] * total

    def part(self, task: str, part: str, values: dict[str, np.ndarray | Ragged], index: np.ndarray) -> np.ndarray:
        """One part of a task's logit, with mean 0 and variance 1: float64 [B]."""
        mean, deviation = self._scales[task, part]
        return (self._mixed(task, part, values, index) - mean) / deviation

    def draw_labels(self, rng, values, index) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Labels, and the scores that rank rows as well as possible, float64 [B] each, by task."""
        labels, scores = {}, {}
        for task in self.plan.deviation:
            logit = self.logit(task, values, index)
            if self.plan.paired:
                first = rng.random(len(logit) // 2) < sigmoid(logit[0::2] - logit[1::2])
                labels[task], scores[task] = np.stack([first, ~first], axis=1).ravel(), logit
                continue
            before = self.plan.given.get(task)
            chance = sigmoid(logit)
            labels[task] = rng.random(len(logit)) < chance
            scores[task] = chance
            if before:
                labels[task] &= labels[before]
                scores[task] = chance * scores[before]
        return labels, scores

    def _parts(self) -> list[str]:
        return [part for part in PARTS if self.weights[part] > 0]

    def _sources(self) -> list[str]:
        return ["common", *self.plan.deviation] if self.plan.common else list(self.plan.deviation)

    def _mixed(self, task, part, values, index) -> np.ndarray:
        if not self.plan.common or part in ("interest", "order"):
            return self._raw(task, part, values, index)
        common, own = self._raw("common", part, values, index), self._raw(task, part, values, index)
        return np.sqrt(self.plan.common) * common + np.sqrt(1.0 - self.plan.common) * own

    def _raw(self, source, part, values, index) -> np.ndarray:
        plan = self.plan
        match part:
            case "first order":
                return sum(self._effect(values, source, name) for name in plan.first)
            case "pairs":
                return sum(self._pair(source, a, b, values) for a, b in plan.pairs)
            case "interest":
                return sum(alike(values[target], values[history])[0] > 0 for target, history in plan.interest)
            case "order":
                share_and_last = [alike(values[target], values[history]) for target, history in plan.interest]
                return sum(last - share for share, last in share_and_last)
            case "rare":
                return sum(effect(values[c], source, c) * (values[c] >= RARE) for c in plan.rare)
        angle = 2.0 * np.pi / PERIOD * index
        waves = (np.cos(angle), np.sin(angle))
        return sum(waves[place[-1]] * self._centred(values, place) for place in self._drift_places(source))

    def _effect(self, values, source: str, name: str, *more: object) -> np.ndarray:
        """The effect of a column's values: an effect per frequent id, or a wave over numbers."""
        column = self.schema[name]
        if not isinstance(column, Numeric):
            return effect(values[name], source, name, *more) * (values[name] < RARE)
        mean, deviation = self._seen[name]
        standard = np.clip((seen(column, values[name]) - mean) / deviation, -3.0, 3.0)
        return np.sqrt(2.0) * np.cos(1.5 * standard + salt("phase", source, name, *more) / 2.0**32 * 2.0 * np.pi)

    def _vector_places(self, source: str, a: str, b: str) -> list[tuple]:
        """The names of the effects that make u(a) and v(b), two numbers each."""
        return [(source, column, a, b, d) for column in (a, b) for d in range(2)]

    def _pair(self, source: str, a: str, b: str, values) -> np.ndarray:
        u0, u1, v0, v1 = (self._centred(values, place) for place in self._vector_places(source, a, b))
        return u0 * v0 + u1 * v1

    def _drift_places(self, source: str) -> list[tuple]:
        return [(source, column, "drift", wave) for column in self.plan.drift for wave in range(2)]

    def _centre(self, values, places: list[tuple]) -> None:
        """Stores the mean of effects. Subtracting it keeps a single column of a pair, or the time of day, from shifting the
        logit."""
        self._centres |= {place: float(self._effect(values, *place).mean()) for place in places}

    def _centred(self, values, place: tuple) -> np.ndarray:
        return self._effect(values, *place) - self._centres[place]

    def _solve_intercept(self, task, rate, values, index) -> float:
        """The intercept that gives the positive rate, found by bisection."""
        logit = self.logit(task, values, index)
        before = self.plan.given.get(task)
        given = sigmoid(self.logit(before, values, index)) if before else 1.0
        low, high = -60.0, 60.0
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (middle, high) if np.mean(given * sigmoid(logit + middle)) < rate else (low, middle)
        return middle


def effect(ids: np.ndarray, *names: object) -> np.ndarray:
    """An effect per id, approximately normal with mean 0 and variance 1 over ids: int [n] -> float32 [n].

    It adds four bytes of a hash of (names, id). So no effect is stored, and every possible id has one.
    """
    total = mix(ids, salt("effect", *names)).view(np.uint8).reshape(-1, 4).sum(axis=1, dtype=np.uint16)
    return (total.astype(np.float32) - 510.0) / np.float32(np.sqrt((256.0**2 - 1.0) / 3.0))


def alike(target: np.ndarray, history: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """The fraction of each history that equals its target, and whether its last event does; float64 [B], 0 if it is empty."""
    lengths = history.lengths
    equal = history.values == np.repeat(target, lengths)
    until = np.concatenate([[0], np.cumsum(equal)])
    share = (until[history.offsets[1:]] - until[history.offsets[:-1]]) / np.maximum(lengths, 1)
    last = np.zeros(len(lengths))
    some = lengths > 0
    last[some] = equal[history.offsets[1:][some] - 1]
    return share, last


def seen(column: Numeric, values: np.ndarray) -> np.ndarray:
    """A number as a model sees it: the default if it is missing, then the column's transform."""
    filled = np.where(np.isnan(values), column.default, values)
    match column.transform:
        case "log1p":
            return np.log1p(np.maximum(filled - column.low, 0.0))
        case "minmax":
            return (filled - column.low) / (column.high - column.low)
    return filled


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def _moments(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std()) or 1.0
