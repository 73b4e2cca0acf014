"""The definition of `ctrlab.ops.indicator`, in NumPy, float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.ops.references.arrays import Ragged, normal
from ctrlab.ops.references.columns import Ids, flat, require_int64, splits_of
from ctrlab.profiling.work import Work


def reference(columns: Sequence[Ids], sizes: Sequence[int], kernel, weights=None) -> np.ndarray:
    """The definition in NumPy, float64 [B, O].

    Raises:
        CtrlabError: an id is out of range, or the columns differ in number or in batch size.

    >>> reference([np.array([1, -1])], [3], np.array([[1.0], [2.0], [3.0]]))
    array([[2.],
           [0.]])
    """
    kernel = np.asarray(kernel, np.float64)
    rows, hits = _hits(columns, sizes, weights)
    out = np.zeros((rows, kernel.shape[1]))
    for row, place, weight in hits:
        out[row] += weight * kernel[place]
    return out


def reference_gradient(columns, sizes, kernel, weights=None, *, d_out) -> tuple[np.ndarray, list[np.ndarray] | None]:
    """d_kernel, float64 [V, O], and d_weights: per column a flat array with one entry per id; None without weights."""
    kernel, d_out = np.asarray(kernel, np.float64), np.asarray(d_out, np.float64)
    d_kernel = np.zeros_like(kernel)
    for row, place, weight in _hits(columns, sizes, weights)[1]:
        d_kernel[place] += weight * d_out[row]
    if weights is None:
        return d_kernel, None
    d_weights = []
    for (ids, row_of, _), offset in zip(_flat(columns, weights), offsets(sizes)):
        dots = (kernel[offset + np.maximum(ids, 0)] * d_out[row_of]).sum(axis=1)  # [n]
        d_weights.append(np.where(ids >= 0, dots, 0.0))
    return d_kernel, d_weights


def _hits(columns, sizes, weights) -> tuple[int, list[tuple[int, int, float]]]:
    """The number of examples, and (example, kernel row, weight) of each known id."""
    agree(columns, sizes, weights)
    hits = []
    for c, ((ids, row_of, values), size, offset) in enumerate(zip(_flat(columns, weights), sizes, offsets(sizes))):
        bad = np.flatnonzero((ids < -1) | (ids >= size))
        if bad.size:
            raise CtrlabError(
                f"The ids of column {c} must be -1 (unknown) or in [0, {size}); received {ids[bad[0]]} in row {row_of[bad[0]]}."
            )
        hits += [(r, offset + i, w) for i, r, w in zip(ids, row_of, values) if i >= 0]
    rows = {len(splits_of(c)) - 1 for c in columns}
    if len(rows) > 1:
        raise CtrlabError(f"All columns must have the same rows; received {sorted(rows)}.")
    return rows.pop(), hits


def _flat(columns, weights) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yields the ids of each column, with their examples and weights."""
    entries = []
    for ids, w in zip(columns, weights or [None] * len(columns)):
        values, splits = flat(ids), splits_of(ids)
        row_of = np.repeat(np.arange(len(splits) - 1), np.diff(splits))
        entries.append((values, row_of, np.ones(len(values)) if w is None else flat(w).astype(np.float64)))
    return entries


def agree(columns, sizes, weights) -> None:
    """Refuses columns, sizes and weights of different number, and ids that are not int64."""
    if not len(columns) == len(sizes) > 0:
        raise CtrlabError(
            f"There must be one size per column, and at least one column; received {len(sizes)} for {len(columns)} columns."
        )
    if weights is not None and len(weights) != len(columns):
        raise CtrlabError(f"Weights must be None or one entry per column; received {len(weights)} for {len(columns)} columns.")
    require_int64(columns)


def offsets(sizes: Sequence[int]) -> list[int]:
    """The kernel row of each column's id 0."""
    return [sum(sizes[:c]) for c in range(len(sizes))]


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    single, bags = rng.integers(-1, 4, 5), Ragged.of([[0, 2, 2, -1], [], [6], [1, 6, 5], []], np.int64)
    unknown = np.full(3, -1)
    weights = [normal(rng, 5), Ragged(normal(rng, 8), bags.row_splits)]
    return {
        "random": ([single, bags], [4, 7], normal(rng, 11, 1)),
        "several outputs": ([single, bags], [4, 7], normal(rng, 11, 5)),
        "weights": ([single, bags], [4, 7], normal(rng, 11, 2), weights),
        "unknown ids alone": ([unknown, Ragged.of([[-1], [-1, -1], []], np.int64)], [4, 7], normal(rng, 11, 3)),
        "no rows": ([unknown[:0], Ragged.of([], np.int64)], [4, 7], normal(rng, 11, 1)),
    }


def work(rows: float, hits: float, size: int, outputs: int) -> Work:
    """Forward and backward, for `hits` ids in total and a kernel of `size` rows.

    Each hit adds one kernel row forward and one row of d_out backward. Ids are read in both directions. Kernel rows without ids
    are not read, but every row of d_kernel is written.
    """
    touched = min(size, hits)
    return Work(flops=2.0 * hits * outputs, bytes=2 * 8.0 * hits + 4.0 * outputs * (2 * rows + touched + size))
