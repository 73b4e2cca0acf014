"""The distribution of single columns: ids, numbers, and lengths of lists.

`measure.py` measures these statistics on a real sample; `ctrlab/data/statistics/<set>.json` holds them and says which ones are
assumed. The generators draw from them. Ids are ranks here: 0 is the most frequent id, -1 is a missing value.
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
    """A column of ids: measured shares for the most frequent ids (the head), a Zipf-Mandelbrot power law for the other ranks.

    P(rank k) = head[k] for k < len(head); the remaining mass falls as (k + 1 + shift)^-exponent up to `cardinality`.

    Attributes:
        cardinality: number of distinct ids.
        head: shares of the most frequent ids among the present values, in descending order.
        exponent, shift: of the power law behind the head.
        missing: fraction of rows without a value.
        same: in a list, the fraction of neighbours that are equal.
        distinct: number of distinct ids in the measured sample.
    """

    cardinality: int
    head: tuple[float, ...] = ()
    exponent: float = 1.05
    shift: float = 0.0
    missing: float = 0.0
    same: float = 0.0
    distinct: int = 0

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """int64 [size] ranks, -1 for missing values."""
        uniform = rng.random(size)
        if not self.missing:
            return self.rank(uniform)
        ranks = self.rank(np.maximum(uniform - self.missing, 0.0) / (1.0 - self.missing))
        ranks[uniform < self.missing] = -1
        return ranks

    def rank(self, uniform: np.ndarray) -> np.ndarray:
        """The inverse distribution function: float64 [n] in [0, 1) -> rank, int64 [n]."""
        first = len(self.head)
        below = np.cumsum(self.head) if first else np.zeros(0)
        ranks = np.searchsorted(below, uniform, side="right")
        if self.cardinality <= first:
            return np.minimum(ranks, self.cardinality - 1)
        behind = np.flatnonzero(ranks == first)
        start = below[-1] if first else 0.0
        # The inverse of `tail`'s integral, scaled so that the first id of the tail is at 1.
        power, origin = 1.0 - self.exponent, first + 1.0 + self.shift
        last = ((self.cardinality + 1.0 + self.shift) / origin) ** power
        place = (uniform[behind] - start) / (1.0 - start)
        tail = origin * (1.0 + place * (last - 1.0)) ** (1.0 / power) - self.shift
        ranks[behind] = np.clip(tail.astype(np.int64) - 1, first, self.cardinality - 1)
        return ranks

    def tail(self, edges: np.ndarray) -> np.ndarray:
        """The probability mass between ranks behind the head: edges [n + 1] in len(head)..cardinality -> [n]."""
        first = len(self.head)
        power, origin = 1.0 - self.exponent, first + 1.0 + self.shift
        integral = ((np.append(edges, self.cardinality) + 1.0 + self.shift) / origin) ** power - 1.0
        return np.diff(integral[:-1]) / integral[-1] * max(0.0, 1.0 - sum(self.head))

    def probabilities(self) -> np.ndarray:
        """float64 [cardinality]: the share of each rank among the present values."""
        tail = self.tail(np.arange(len(self.head), self.cardinality + 1.0)) if len(self.head) < self.cardinality else ()
        shares = np.concatenate([self.head, tail])
        return shares / shares.sum()


@dataclass(frozen=True)
class Numbers:
    """A column of numbers, given by quantiles; between two quantiles the numbers are uniform on a logarithmic scale.

    Attributes:
        quantiles: at 0, 1/(n-1), ..., 1 of the present values.
        missing: fraction of rows without a value.
        whole: the values are whole numbers.
        steps: only the quantiles themselves occur (few distinct values, as in a code or a flag).
    """

    quantiles: tuple[float, ...]
    missing: float = 0.0
    whole: bool = True
    steps: bool = False

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """float64 [size], NaN for missing values."""
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
    """Published facts about a data set that `measure` can't find in a sample.

    Attributes:
        source: where its figures come from.
        cardinalities: by column, the number of distinct ids in the full data set, if the sample has fewer.
        assumed_rates: positive rates of labels that are not in the sample.
    """

    source: str
    cardinalities: dict[str, int] = field(default_factory=dict)
    assumed_rates: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Statistics(Plain):
    """The measured or assumed statistics of one data set.

    Attributes:
        name, source: the data set, and where its figures come from.
        rows: number of rows in the measured sample.
        positive: the fraction of ones for each label.
        ids, numbers: by column; the values of a list column are listed under its name.
        lengths: for each list column.
    """

    name: str
    source: str
    rows: int
    positive: dict[str, float]
    ids: dict[str, Ids] = field(default_factory=dict)
    numbers: dict[str, Numbers] = field(default_factory=dict)
    lengths: dict[str, Numbers] = field(default_factory=dict)

    def sample(self, rng: np.random.Generator, rows: int, names: Iterable[str]) -> dict[str, np.ndarray]:
        """The named columns of ids and numbers, drawn independently: [rows] each."""
        return {name: (self.ids.get(name) or self.numbers[name]).sample(rng, rows) for name in names}

    def to_text(self) -> str:
        """Readable JSON, one column per line."""
        plain = self.to_json()
        lines = [f" {json.dumps(key)}: {json.dumps(plain[key])}" for key in ("name", "source", "rows", "positive")]
        for key in ("ids", "numbers", "lengths"):
            columns = (f"  {json.dumps(name)}: {json.dumps(column)}" for name, column in plain[key].items())
            lines.append(f" {json.dumps(key)}: {{\n" + ",\n".join(columns) + "\n }")
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_text(cls, text: str) -> Statistics:
        """Raises BadData if the text is not a statistics file."""
        try:
            return cls.from_json(json.loads(text))
        except ValueError as error:
            raise BadData(f"A statistics file must hold what `measure` writes; this one does not ({error}).") from None


@functools.cache
def statistics(name: str) -> Statistics:
    """The statistics of a data set that the package contains."""
    return Statistics.from_text((resources.files("ctrlab.data") / "statistics" / f"{name}.json").read_text())
