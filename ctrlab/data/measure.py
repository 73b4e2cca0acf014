"""Measures the statistics of `marginals` on a converted table, and compares two measurements.

ctrlab data statistics criteo train.parquet    # prints the JSON that is stored in ctrlab/data/statistics
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ctrlab.data import sets
from ctrlab.data.marginals import Ids, Numbers, Published, Statistics
from ctrlab.errors import BadData
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence

HEAD = 32  # number of ids whose share is stored; the others follow the power law
SMALL = 64  # up to this many ids, all shares are stored
FEW = 32  # up to this many distinct values, a number is stored as steps
PLACES = 101  # number of quantiles


def measure_file(name: str, path: str | Path) -> Statistics:
    """The statistics of a converted Parquet file of the set `name`.

    Raises:
        UnknownName: no such data set.
        BadData: the file is missing, damaged, empty or not of this schema.
    """
    schema = sets.schema(name)
    published = sets.PUBLISHED.get(name, Published(f"Measured on {Path(path).name}."))
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise BadData(
            f"{path} can't be read as Parquet ({error}); convert the raw files first (`ctrlab data convert`)."
        ) from None
    found = measure(table, schema, published.source, published.cardinalities)
    found.positive.update(published.assumed_rates)
    return found


def measure(table: pa.Table, schema: Schema, source: str, published: Mapping[str, int] = {}) -> Statistics:
    """Measures the statistics of a table.

    Args:
        table: columns of `arrow_schema(schema)`.
        published: by column, the number of distinct ids in the full data set, if the table has fewer.
    Raises:
        BadData: a column is missing or there are no rows.
    """
    absent = [c.name for c in schema.columns if c.name not in table.column_names]
    if absent or not len(table):
        what = f"no column {absent[0]!r}" if absent else "no rows"
        raise BadData(f"A table to measure must hold rows of every column of {schema.name!r}; this one has {what}.")
    found = Statistics(schema.name, source, len(table), {})
    for column in schema.columns:
        values = table[column.name].combine_chunks()
        if isinstance(column, MultiHot | Sequence | NumericList):
            lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
            found.lengths[column.name] = _numbers(lengths, len(lengths))
            owners = np.repeat(np.arange(len(lengths)), lengths)
            values = values.flatten()
        match column:
            case Label():
                found.positive[column.name] = round(pc.mean(values).as_py(), 5)
            case Numeric() | NumericList():
                found.numbers[column.name] = _numbers(values.drop_null().to_numpy(), len(values))
            case Categorical():
                found.ids[column.name] = _ids(values, published.get(column.name, 0))
            case MultiHot() | Sequence():
                found.ids[column.name] = _ids(values, published.get(column.name, 0), owners)
    return found


def _numbers(present: np.ndarray, rows: int) -> Numbers:
    quantiles = np.quantile(present, np.linspace(0, 1, PLACES), method="nearest") if len(present) else np.zeros(PLACES)
    return Numbers(
        quantiles=tuple(float(f"{q:.6g}") for q in quantiles),
        missing=round(1.0 - len(present) / rows, 5) if rows else 0.0,
        whole=bool(np.all(present == np.rint(present))),
        steps=len(np.unique(present)) <= FEW,
    )


def _ids(values: pa.Array, published: int, owners: np.ndarray | None = None) -> Ids:
    present = values.drop_null()
    counts = np.sort(pc.value_counts(present).field("counts").to_numpy())[::-1]
    cardinality = max(published or _richness(counts), len(counts), 1)
    keep = cardinality if cardinality <= SMALL and len(counts) == cardinality else HEAD
    head = tuple(float(f"{share:.5g}") for share in counts[:keep] / max(len(present), 1))
    same = _same(present, owners) if owners is not None else 0.0
    exponent, shift = _power_law(cardinality, head, counts, same)
    return Ids(
        cardinality=cardinality,
        head=head,
        exponent=exponent,
        shift=shift,
        missing=round(1.0 - len(present) / len(values), 5) if len(values) else 0.0,
        same=same,
        distinct=len(counts),
    )


def _richness(counts: np.ndarray) -> int:
    """Estimates the number of distinct ids, seen and unseen, from those seen once and twice (Chao's estimator)."""
    once, twice = np.count_nonzero(counts == 1), np.count_nonzero(counts == 2)
    return int(len(counts) + once * (once - 1) / (2.0 * (twice + 1)))


def _power_law(cardinality: int, head: tuple[float, ...], counts: np.ndarray, same: float) -> tuple[float, float]:
    """Fits exponent and shift behind the head.

    The fitted law must give the sample's number of distinct ids in as many draws. If the sample already shows all ids, the most
    frequent tenth must have the sample's share instead. The tail must not start above the end of the head.

    Args:
        counts: of the distinct ids in the sample, in descending order.
        same: the fraction of values that repeat their neighbour, and so are not independent draws.
    """
    if not head or cardinality <= len(head):
        return Ids.exponent, Ids.shift
    first, tenth = len(head), max(len(head) + 1, cardinality // 10)
    draws = counts.sum() * (1.0 - same)
    edges = np.unique(np.geomspace(first + 1.0, cardinality + 1.0, 2_000).astype(np.int64)) - 1.0
    widths = np.diff(edges)

    def too_flat(exponent: float) -> bool:
        ids = Ids(cardinality, head, exponent, _shift(cardinality, head, exponent))
        if len(counts) == cardinality:
            return ids.tail(np.array([first, tenth]))[0] < counts[first:tenth].sum() / counts.sum()
        return first - (widths * np.expm1(-draws * ids.tail(edges) / widths)).sum() > len(counts)

    exponent = round(_bisect(too_flat, 0.0, 20.0), 3)
    exponent = 1.001 if exponent == 1.0 else exponent  # the integral has another form at exactly 1
    return exponent, _shift(cardinality, head, exponent)


def _shift(cardinality: int, head: tuple[float, ...], exponent: float) -> float:
    first = np.array([len(head), len(head) + 1.0])

    def too_high(shift: float) -> bool:
        return Ids(cardinality, head, exponent, shift).tail(first)[0] > head[-1]

    return float(f"{_bisect(too_high, 0.0, 10.0 * cardinality):.4g}") if exponent != 1.0 and too_high(0.0) else 0.0


def _bisect(grow: Callable[[float], bool], low: float, high: float) -> float:
    """The point at which `grow` turns from true to false."""
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if grow(middle) else (low, middle)
    return middle


def _same(values: pa.Array, owners: np.ndarray) -> float:
    codes = values.dictionary_encode().indices.to_numpy()
    together = owners[1:] == owners[:-1]
    return round(float((codes[1:] == codes[:-1])[together].mean()), 5) if together.any() else 0.0


@dataclass(frozen=True)
class Tolerance:
    """How far two measurements may differ: absolute, except `distinct`, which is relative."""

    positive: float = 0.01
    missing: float = 0.01
    share: float = 0.02
    same: float = 0.05
    distribution: float = 0.03
    distinct: float = 0.15


def differences(found: Statistics, expected: Statistics, tolerance: Tolerance | None = None) -> list[str]:
    """One sentence per statistic in which `found` differs from `expected`; both should have the same number of rows.

    It compares positive rates, missing rates, shares of the most frequent id and of the first ten, fractions of equal neighbours
    in lists, numbers of distinct ids, and the distributions of numbers and lengths.
    """
    allowed = tolerance or Tolerance()
    wrong = []

    def hold(what: str, got: float, want: float, within: float):
        if not abs(got - want) <= within:
            wrong.append(f"{what} should be {want:.4g} within {within:.2g}; it is {got:.4g}.")

    for label, rate in expected.positive.items():
        hold(f"positive rate of {label}", found.positive[label], rate, allowed.positive)
    for name, want in expected.ids.items():
        got = found.ids[name]
        hold(f"missing rate of {name}", got.missing, want.missing, allowed.missing)
        hold(f"top share of {name}", sum(got.head[:1]), sum(want.head[:1]), allowed.share)
        hold(f"top ten's share of {name}", sum(got.head[:10]), sum(want.head[:10]), allowed.share)
        hold(f"equal neighbours in {name}", got.same, want.same, allowed.same)
        hold(f"different ids of {name}", got.distinct, want.distinct, allowed.distinct * want.distinct + 1)
    for what, ours, theirs in (("value", found.numbers, expected.numbers), ("length", found.lengths, expected.lengths)):
        for name, want in theirs.items():
            hold(f"missing rate of {what}s of {name}", ours[name].missing, want.missing, allowed.missing)
            hold(f"distance of {what} distribution of {name}", distance(ours[name], want), 0.0, allowed.distribution)
    return wrong


def distance(a: Numbers, b: Numbers) -> float:
    """The Kolmogorov-Smirnov distance: the largest difference of the distribution functions, at the quantiles of both."""
    at = np.unique(a.quantiles + b.quantiles)
    return float(np.abs(_share_below(a, at) - _share_below(b, at)).max())


def _share_below(numbers: Numbers, at: np.ndarray) -> np.ndarray:
    return np.searchsorted(numbers.quantiles, at, side="right") / len(numbers.quantiles)
