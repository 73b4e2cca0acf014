"""A report with one row per key after a run, and what other admission and eviction settings would have kept.

A report is an Arrow table with one row per key:

    feature     the embedding variable's name
    id          the key, int64
    norm        L2 norm of its vector; null if it has no row
    frequency   how often the key came in training
    last_step   the last optimizer step at which the key came
    tier        "memory" or "disk"; null if it has no row, or if the tier is not known, as in a checkpoint
    admitted    whether it has a row
    row_bytes   bytes that its row takes or would take: value, slots, frequency and its part of the table's index

A report does not contain evicted ids, nor ids that a Bloom filter held back: the filter keeps counters, not keys.
So choose settings from the report of a run without admission and eviction. A run with them only shows the keys they left.

Source: the analysis described in row 16 of published.md (feature, id, vector, frequency and step, written after each run).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ctrlab.data.outputs import Replacement, clear_errors
from ctrlab.embedding.table_state import TableState
from ctrlab.errors import BadData, CtrlabError

WORDS = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("feature", WORDS, nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("norm", pa.float32()),
        pa.field("frequency", pa.int64(), nullable=False),
        pa.field("last_step", pa.int64(), nullable=False),
        pa.field("tier", WORDS),
        pa.field("admitted", pa.bool_(), nullable=False),
        pa.field("row_bytes", pa.int32(), nullable=False),
    ]
)
INDEX_BYTES = 27
"""Bytes per key of a table's index in memory: 16 bytes for its entry, and its part of the free entries.

An entry has the key, its place or its count, and its last step. A key without a row takes nothing else. A shard of the index is
0.50 to 0.72 full. They grow at different sizes, so all together are 0.59 to 0.60 full at any number of keys that is not small.

Source: native/table/index.cc.
"""
FREQUENCY_BYTES = 4
NO_KEYS = np.zeros(0, np.int64)


def report(states: Mapping[str, TableState], on_disk: Mapping[str, np.ndarray | None] | None = None) -> pa.Table:
    """The report of several whole tables (not deltas), given by name.

    Args:
        on_disk: for each table with a lower tier, its keys on disk, int64; None if they are not known.

    >>> one = TableState(np.array([7]), np.array([[3.0, 4.0]], np.float32), {}, np.array([5]), np.array([2]))
    >>> report({"item": one}).to_pylist()[0]["norm"]
    5.0
    """
    parts = [_of_table(name, state, (on_disk or {}).get(name, NO_KEYS)) for name, state in states.items()]
    return pa.concat_tables(parts).unify_dictionaries() if parts else SCHEMA.empty_table()


def _of_table(name: str, state: TableState, on_disk: np.ndarray | None) -> pa.Table:
    n, m = len(state.keys), len(state.candidate_keys)
    has_row = np.arange(n + m) < n
    lower = np.isin(state.keys, NO_KEYS if on_disk is None else on_disk)
    tiers = np.concatenate([lower.astype(np.int32), np.zeros(m, np.int32)])
    tier_known = has_row & (on_disk is not None)
    width = INDEX_BYTES + FREQUENCY_BYTES + 4 * state.dim * (1 + len(state.slots))
    # The norm is computed in float64 because the squares of large values overflow float32.
    norms = np.sqrt(np.einsum("nd,nd->n", state.values, state.values, dtype=np.float64, optimize=False))
    columns = [
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(n + m, np.int32)), pa.array([name])),
        np.concatenate([state.keys, state.candidate_keys]),
        pa.array(np.concatenate([norms, np.zeros(m)]).astype(np.float32), mask=~has_row),
        np.concatenate([state.frequencies, state.candidate_counts]),
        np.concatenate([state.steps, state.candidate_steps]),
        pa.DictionaryArray.from_arrays(pa.array(tiers, mask=~tier_known), pa.array(["memory", "disk"])),
        has_row,
        np.full(n + m, width, np.int32),
    ]
    return pa.table([pa.array(c) if isinstance(c, np.ndarray) else c for c in columns], schema=SCHEMA)


def write(table: pa.Table, path: Path) -> None:
    """Writes the report as a Parquet file. A failure leaves no partial file.

    Raises:
        CtrlabError: the file can't be written.
    """
    with clear_errors(path), Replacement(path) as out:
        pq.write_table(table, out.file, compression="zstd")
        out.keep()


def read(path: Path) -> pa.Table:
    """Reads a report that `write` wrote.

    Raises:
        BadData: the file is not a Parquet file, or not a report.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise BadData(f"A report is a Parquet file; {path} can't be read: {str(error).splitlines()[0]}.") from None
    if missing := set(SCHEMA.names) - set(table.schema.names):
        raise BadData(f"A report has the columns {', '.join(SCHEMA.names)}; {path} lacks {', '.join(sorted(missing))}.")
    return table.select(SCHEMA.names).cast(SCHEMA)


def of_feature(table: pa.Table, feature: str) -> pa.Table:
    """The rows of one feature."""
    return table.filter(pa.compute.equal(table["feature"].cast(pa.string()), feature))


@dataclass(frozen=True)
class Histogram:
    """Keys counted in bins.

    Attributes:
        edges: float64 [n + 1]: bin i holds edges[i] <= x < edges[i + 1]; the last bin includes its upper edge.
        ids: int64 [n]: number of keys. traffic: int64 [n]: total number of times that these keys came.
    """

    edges: np.ndarray
    ids: np.ndarray
    traffic: np.ndarray


def frequencies(table: pa.Table) -> Histogram:
    """All keys by how often they came, in bins of 1, 2 to 3, 4 to 7, ..."""
    return _by_powers(_numbers(table, "frequency"), _numbers(table, "frequency"))


def ages(table: pa.Table, now: int | None = None) -> Histogram:
    """All keys by the number of steps since they last came, in bins of 0, 1, 2 to 3, ... See `eviction` for `now`."""
    return _by_powers(_ages(table, now), _numbers(table, "frequency"))


def norms(table: pa.Table, bins: int = 40) -> Histogram:
    """Keys with a row by the norm of their vector, in `bins` bins of equal width. A vector with a NaN is in no bin."""
    rows = table.filter(table["admitted"])
    values, traffic = _numbers(rows, "norm"), _numbers(rows, "frequency")
    finite = np.isfinite(values)
    ids, edges = np.histogram(values[finite], bins)
    return Histogram(edges, ids, np.histogram(values[finite], edges, weights=traffic[finite])[0].astype(np.int64))


def _by_powers(values: np.ndarray, traffic: np.ndarray) -> Histogram:
    top = int(values.max(initial=1)).bit_length()
    edges = np.concatenate([[0], 1 << np.arange(top + 1)])
    place = np.searchsorted(edges, values, "right") - 1
    ids = np.bincount(place, minlength=top + 1)
    sums = np.zeros(top + 1, np.int64)
    np.add.at(sums, place, traffic)
    return Histogram(edges.astype(np.float64), ids, sums)


@dataclass(frozen=True)
class WhatIf:
    """What each of n settings would have kept.

    Attributes:
        settings: [n], in the order in which they were given.
        rows: int64 [n]: keys with a row. bytes: int64 [n]: bytes of these rows and of the keys that are only counted.
        traffic: float64 [n]: the fraction of key occurrences in training whose key has a row.
    """

    settings: np.ndarray
    rows: np.ndarray
    bytes: np.ndarray
    traffic: np.ndarray


def admission(table: pa.Table, thresholds: Sequence[int]) -> WhatIf:
    """Rows, bytes and traffic per threshold, if a key got its row at its `threshold`-th occurrence, counted exactly."""
    count = _numbers(table, "frequency")
    return _what_if(table, thresholds, count, thresholds, has_row=np.ones(len(count), bool), left_bytes=INDEX_BYTES)


def eviction(table: pa.Table, steps_to_live: Sequence[int], now: int | None = None) -> WhatIf:
    """What is left if keys are evicted that last came over `steps_to_live` steps before `now` (default: the last step)."""
    youth = -_ages(table, now)
    return _what_if(table, steps_to_live, youth, -np.asarray(steps_to_live), has_row=_numbers(table, "admitted"))


def eviction_by_norm(table: pa.Table, thresholds: Sequence[float]) -> WhatIf:
    """What is left if rows with a norm below a threshold are evicted. Keys without a row and vectors with a NaN stay."""
    has_row, norm = _numbers(table, "admitted"), _numbers(table, "norm")
    return _what_if(table, thresholds, np.where(np.isnan(norm), np.inf, norm), thresholds, has_row=has_row)


def _what_if(table, settings, quantity, least, *, has_row: np.ndarray, left_bytes: int = 0) -> WhatIf:
    """Keys with a row stay if their quantity is at least `least` [n]; every other key still takes `left_bytes` bytes."""
    order = np.argsort(quantity, kind="stable")
    first = np.searchsorted(quantity[order], least, "left")

    def of_remaining(values: np.ndarray) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(values[order][::-1])])[len(order) - first]

    frequency = _numbers(table, "frequency")
    row_bytes = np.where(has_row, _numbers(table, "row_bytes"), INDEX_BYTES).astype(np.int64)
    return WhatIf(
        np.asarray(settings),
        of_remaining(has_row.astype(np.int64)),
        of_remaining(row_bytes) + left_bytes * first,
        of_remaining(frequency * has_row) / max(frequency.sum(), 1),
    )


def _numbers(table: pa.Table, column: str) -> np.ndarray:
    """A column as an array, with NaN for null."""
    return table[column].to_numpy()


def _ages(table: pa.Table, now: int | None) -> np.ndarray:
    """Steps since each key last came.

    Raises:
        CtrlabError: a key came after `now`.
    """
    last = _numbers(table, "last_step")
    newest = int(last.max(initial=0))
    if now is not None and now < newest:
        raise CtrlabError(f"Ages count from a step that no key came after; received {now}, and the report has step {newest}.")
    return (newest if now is None else now) - last


def suggest_threshold(table: pa.Table, coverage: float) -> int:
    """The greatest admission threshold whose rows still cover the fraction `coverage` of the traffic.

    Raises:
        CtrlabError: `coverage` is not in (0, 1], or the report has no traffic.
    """
    _require_share(coverage, table)
    choices = np.unique(_numbers(table, "frequency"))
    choices = choices[choices > 0]
    return int(choices[admission(table, choices).traffic >= coverage][-1])


def suggest_steps_to_live(table: pa.Table, coverage: float, now: int | None = None) -> int:
    """The least steps_to_live that keeps the fraction `coverage` of the traffic that the rows cover now.

    Raises:
        CtrlabError: `coverage` is not in (0, 1], or the report has no traffic.
    """
    _require_share(coverage, table)
    choices = np.maximum(np.unique(_ages(table, now)), 1)
    left = eviction(table, choices, now)
    return int(choices[left.traffic >= coverage * left.traffic[-1]][0])


def _require_share(coverage: float, table: pa.Table) -> None:
    if not 0 < coverage <= 1:
        raise CtrlabError(f"A coverage is a share of the traffic, above 0 and at most 1; received {coverage}.")
    if not _numbers(table, "frequency").sum():
        raise CtrlabError("A setting is chosen from traffic, and this report has none: train first, or ask another feature.")
