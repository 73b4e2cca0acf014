"""What one column's values look like on their own: how ids are spread, where numbers lie, how long lists are.

The figures stand in `ctrlab/data/statistics/<set>.json`, measured by `measure.py` on a real sample (or assumed, where the file
says so); the generators draw from them. Ids are ranks here: 0 is the most frequent, -1 is a missing value.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import resources

import numpy as np

from ctrlab.errors import BadData
from ctrlab.plain import Plain


@dataclass(frozen=True)
class Ids:
    """A column of ids: the head's shares as measured, then a power law over the other ranks (Zipf and Mandelbrot's).

    P(rank k) = head[k] for k < len(head); the remaining mass falls as (k + 1 + shift)^-exponent up to `cardinality`.

    Attributes:
        cardinality: how many different ids there are.
        head: shares of the most frequent ids among the values that are present, in falling order.
        exponent, shift: of the power law behind the head.
        missing: share of rows without a value.
        same: in a list, the share of neighbours that are equal.
        distinct: different ids in the sample that was measured.
    """

    cardinality: int
    head: tuple[float, ...] = ()
    exponent: float = 1.05
    shift: float = 0.0
    missing: float = 0.0
    same: float = 0.0
    distinct: int = 0

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """int64 [size] ranks, -1 where the value is missing."""
        uniform = rng.random(size)
        if not self.missing:
            return self.rank(uniform)
        ranks = self.rank(np.maximum(uniform - self.missing, 0.0) / (1.0 - self.missing))
        ranks[uniform < self.missing] = -1
        return ranks

    def rank(self, uniform: np.ndarray) -> np.ndarray:
        """The rank at a place of the distribution function: float64 [n] in [0, 1) -> int64 [n]."""
        first = len(self.head)
        below = np.cumsum(self.head) if first else np.zeros(0)
        ranks = np.searchsorted(below, uniform, side="right")
        if self.cardinality <= first:
            return np.minimum(ranks, self.cardinality - 1)
        behind = np.flatnonzero(ranks == first)
        start = below[-1] if first else 0.0
        # The inverse of `tail`'s integral, scaled so that its first id stands at 1.
        power, origin = 1.0 - self.exponent, first + 1.0 + self.shift
        last = ((self.cardinality + 1.0 + self.shift) / origin) ** power
        place = (uniform[behind] - start) / (1.0 - start)
        tail = origin * (1.0 + place * (last - 1.0)) ** (1.0 / power) - self.shift
        ranks[behind] = np.clip(tail.astype(np.int64) - 1, first, self.cardinality - 1)
        return ranks

    def tail(self, edges: np.ndarray) -> np.ndarray:
        """The mass between ranks behind the head: edges [n + 1] in len(head)..cardinality -> [n]."""
        first = len(self.head)
        power, origin = 1.0 - self.exponent, first + 1.0 + self.shift
        integral = ((np.append(edges, self.cardinality) + 1.0 + self.shift) / origin) ** power - 1.0
        return np.diff(integral[:-1]) / integral[-1] * max(0.0, 1.0 - sum(self.head))

    def probabilities(self) -> np.ndarray:
        """float64 [cardinality], the share of each rank among the values that are present."""
        tail = self.tail(np.arange(len(self.head), self.cardinality + 1.0)) if len(self.head) < self.cardinality else ()
        shares = np.concatenate([self.head, tail])
        return shares / shares.sum()


@dataclass(frozen=True)
class Numbers:
    """A column of numbers by its quantiles; between two of them numbers are spread evenly on a logarithmic scale.

    Attributes:
        quantiles: at 0, 1/(n-1), ..., 1 of the values that are present.
        missing: share of rows without a value.
        whole: values are whole numbers.
        steps: nothing lies between neighbouring quantiles (few different values, as in a code or a flag).
    """

    quantiles: tuple[float, ...]
    missing: float = 0.0
    whole: bool = True
    steps: bool = False

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """float64 [size], NaN where the value is missing."""
        places = rng.random(size) * (len(self.quantiles) - 1)
        if self.steps:
            np.rint(places, out=places)
        least = self.quantiles[0]
        logarithms = np.log1p(np.array(self.quantiles) - least)
        values = np.expm1(np.interp(places, np.arange(len(logarithms)), logarithms)) + least
        if self.whole:
            np.rint(values, out=values)
        if self.missing:
            values[rng.random(size) < self.missing] = np.nan
        return values


@dataclass(frozen=True)
class Published:
    """What `measure` is told of a sample.

    Attributes:
        source: where its figures come from.
        cardinalities: different ids of the full data set, by column, where the sample has fewer.
        assumed_rates: positive rates of labels that the sample does not have.
    """

    source: str
    cardinalities: dict[str, int] = field(default_factory=dict)
    assumed_rates: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics(Plain):
    """What was measured on (or is assumed of) one data set.

    Attributes:
        name, source: the data set, and where its figures come from.
        rows: of the sample that was measured.
        positive: the share of ones of each label.
        ids, numbers: by column; a list column's values stand under its name.
        lengths: of each list column.
    """

    name: str
    source: str
    rows: int
    positive: dict[str, float]
    ids: dict[str, Ids] = field(default_factory=dict)
    numbers: dict[str, Numbers] = field(default_factory=dict)
    lengths: dict[str, Numbers] = field(default_factory=dict)

    def sample(self, rng: np.random.Generator, rows: int, names: Iterable[str]) -> dict[str, np.ndarray]:
        """The named columns of ids and numbers, each drawn on its own: [rows] each."""
        return {name: (self.ids.get(name) or self.numbers[name]).sample(rng, rows) for name in names}

    def to_text(self) -> str:
        """Readable JSON, one column a line."""
        plain = self.to_json()
        lines = [f" {json.dumps(key)}: {json.dumps(plain[key])}" for key in ("name", "source", "rows", "positive")]
        for key in ("ids", "numbers", "lengths"):
            columns = (f"  {json.dumps(name)}: {json.dumps(column)}" for name, column in plain[key].items())
            lines.append(f" {json.dumps(key)}: {{\n" + ",\n".join(columns) + "\n }")
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_text(cls, text: str) -> Statistics:
        """Raises BadData where the text is no statistics file."""
        try:
            return cls.from_json(json.loads(text))
        except ValueError as error:
            raise BadData(f"A statistics file must hold what `measure` writes; this one does not ({error}).") from None


@functools.cache
def statistics(name: str) -> Statistics:
    """The figures that the package ships for a data set."""
    return Statistics.from_text((resources.files("ctrlab.data") / "statistics" / f"{name}.json").read_text())
