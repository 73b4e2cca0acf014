"""The definition of `ctrlab.ops.lookup`, in NumPy, float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctrlab.errors import CtrlabError
from ctrlab.ops.references import merge
from ctrlab.ops.references.arrays import Ragged, Slices, Variable, normal
from ctrlab.ops.references.columns import Ids, flat, require_int64, splits_of
from ctrlab.profiling.work import Work

COMBINERS = ("rows", "sum", "mean")


@dataclass(frozen=True)
class Layout:
    """How columns are looked up: one entry per column.

    Attributes:
        table_of: the table that the column reads.
        combiners: "rows" (one row per id), "sum" or "mean".
        output_of: the output of the column; outputs are numbered from 0, and each has a column.
        unknown: the columns whose ids may be -1. Only the baseline uses it: excluding unknown ids costs it time.
    Raises:
        CtrlabError: the entries do not fit together.

    >>> Layout((0, 0), ("mean", "mean"), (0, 0)).outputs
    1
    """

    table_of: tuple[int, ...]
    combiners: tuple[str, ...]
    output_of: tuple[int, ...]
    unknown: frozenset[int] = frozenset()

    def __post_init__(self):
        if not len(self.table_of) == len(self.combiners) == len(self.output_of) > 0:
            raise CtrlabError(
                f"A layout must have a column, and one table, combiner and output a column; received {len(self.table_of)}, "
                f"{len(self.combiners)} and {len(self.output_of)}."
            )
        for c, combiner in enumerate(self.combiners):
            if combiner not in COMBINERS:
                raise CtrlabError(f"A combiner must be one of {', '.join(COMBINERS)}; received {combiner!r} in column {c}.")
        if set(self.output_of) != set(range(self.outputs)):
            raise CtrlabError(f"Outputs must be numbered from 0 without a gap; received {sorted(set(self.output_of))}.")
        for m in range(self.outputs):
            if len({self.combiners[c] == "rows" for c in self.columns_of(m)}) > 1:
                raise CtrlabError(f"The columns of output {m} must all be pooled, or all keep a row for each id; they differ.")

    @property
    def outputs(self) -> int:
        return max(self.output_of) + 1

    def columns_of(self, output: int) -> list[int]:
        return [c for c, m in enumerate(self.output_of) if m == output]


def reference(tables: Sequence, columns: Sequence[Ids], layout: Layout) -> list[np.ndarray]:
    """The definition in NumPy, float64.

    Raises:
        CtrlabError: an id is out of range, or the columns do not fit together.

    >>> reference([np.array([[1.0], [2.0]])], [np.array([1, -1, 0])], Layout((0,), ("sum",), (0,)))[0].ravel()
    array([2., 0., 1.])
    """
    tables = [np.asarray(table, np.float64) for table in tables]
    pieces = []
    for (row_of, ids, weights, rows), t in zip(_hits(tables, columns, layout), layout.table_of):
        piece = np.zeros((rows, tables[t].shape[1]))
        np.add.at(piece, row_of, weights[:, None] * tables[t][ids])
        pieces.append(piece)
    return [np.concatenate([pieces[c] for c in layout.columns_of(m)], axis=1) for m in range(layout.outputs)]


def reference_gradient(tables: Sequence, columns: Sequence[Ids], layout: Layout, d_out: Sequence) -> list[Slices]:
    """For each table ids [u] and rows float64 [u, D]: the distinct ids that were looked up, ascending, and their rows'
    gradients."""
    dims = [np.asarray(table).shape[1] for table in tables]
    at = [0] * layout.outputs
    parts = [[] for _ in tables]
    for (row_of, ids, weights, _), t, m in zip(_hits(tables, columns, layout), layout.table_of, layout.output_of):
        d = np.asarray(d_out[m], np.float64)[:, at[m] : at[m] + dims[t]]
        at[m] += dims[t]
        parts[t].append((ids, weights[:, None] * d[row_of]))
    merged = []
    for part, dim in zip(parts, dims):
        ids = np.concatenate([i for i, _ in part] or [np.zeros(0, np.int64)])
        rows = np.concatenate([r for _, r in part] or [np.zeros((0, dim))])
        merged.append(merge.reference(Slices(ids, rows)))
    return merged


def _hits(tables, columns, layout) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """For each column: the output row, the id and the weight of every known id; and the output's number of rows."""
    agree(tables, columns, layout)
    batch = {len(splits_of(c)) - 1 for c in columns}
    if len(batch) > 1:
        raise CtrlabError(f"All columns must have the same rows; received {sorted(batch)}.")
    hits = []
    for c, (column, t, combiner) in enumerate(zip(columns, layout.table_of, layout.combiners)):
        ids, splits = flat(column), splits_of(column)
        size = np.asarray(tables[t]).shape[0]
        row_of = np.repeat(np.arange(len(splits) - 1), np.diff(splits))
        bad = np.flatnonzero((ids < -1) | (ids >= size))
        if bad.size:
            raise CtrlabError(
                f"The ids of column {c} must be -1 (unknown) or in [0, {size}); received {ids[bad[0]]} in row {row_of[bad[0]]}."
            )
        for other in layout.columns_of(layout.output_of[c]) if combiner == "rows" else []:
            if not np.array_equal(splits_of(columns[other]), splits):
                raise CtrlabError(
                    f"Lists that run side by side must be of equal length; columns {other} and {c} differ in a row."
                )
        known = ids >= 0
        counts = np.bincount(row_of[known], minlength=len(splits) - 1)
        weights = 1.0 / counts[row_of[known]] if combiner == "mean" else np.ones(known.sum())
        place, rows = (np.arange(len(ids)), len(ids)) if combiner == "rows" else (row_of, len(splits) - 1)
        hits.append((place[known], ids[known], weights, rows))
    return hits


def agree(tables, columns, layout: Layout) -> None:
    """Refuses columns that do not fit the layout, and ids that are not int64."""
    if len(columns) != len(layout.table_of):
        raise CtrlabError(f"There must be as many columns as the layout has; received {len(columns)} for {len(layout.table_of)}.")
    if not 0 <= min(layout.table_of) <= max(layout.table_of) < len(tables):
        raise CtrlabError(f"Columns must read one of the {len(tables)} tables; the layout says {sorted(set(layout.table_of))}.")
    require_int64(columns)


def cases(rng: np.random.Generator) -> dict[str, tuple]:
    tables = [normal(rng, 9, 3).view(Variable), normal(rng, 4, 5).view(Variable)]
    single, bags = rng.integers(0, 9, 4), Ragged.of([[3, 3, 8], [], [0], [8, 1]], np.int64)
    others, holes = Ragged.of([[0, 3, 3], [], [1], [2, 2]], np.int64), Ragged.of([[-1, 3], [-1], [], [0]], np.int64)
    pooled = Layout((0, 0, 1), ("sum", "mean", "mean"), (0, 0, 0))
    none = Ragged.of([], np.int64)
    return {
        "random": (tables, [single, bags, others], pooled),
        "rows": (tables, [bags, others], Layout((0, 1), ("rows", "rows"), (0, 0))),
        "rows, and sums of them": (tables, [bags, bags], Layout((0, 0), ("rows", "sum"), (0, 1))),
        "unknown ids": (tables, [np.array([-1, 2, -1, 0]), holes], Layout((0, 1), ("sum", "mean"), (1, 0), frozenset({0, 1}))),
        "unknown ids alone": (tables, [np.full(2, -1)], Layout((0,), ("sum",), (0,), frozenset({0}))),
        "no rows": (tables, [single[:0], none, none], pooled),
    }


def work(ids: float, distinct: float, dim: int, trained: bool = True) -> Work:
    """The rows of `ids` ids are added up, `distinct` of them different; if `trained`, their gradients too. Each row is read once.

    The outputs may stay in a cache; if they have to cross memory, add those bytes.
    """
    return Work(flops=(1.0 + trained) * ids * dim, bytes=8.0 * ids, random_rows=distinct, row_bytes=4 * dim)
