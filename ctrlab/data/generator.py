"""Generates any number of rows of a data set: values from its statistics, labels from its planted model.

Rows are made in blocks of BLOCK rows. Block b of a seed is always the same, whatever the number of rows. The planted model does
not depend on the seed, so another seed gives new data with the same relation between features and labels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ctrlab.data.marginals import statistics
from ctrlab.data.planted import Plan, Planted
from ctrlab.data.words import Ragged, to_table
from ctrlab.errors import CtrlabError
from ctrlab.features import Schema

BLOCK = 16_384
Draw = Callable[[np.random.Generator, int], dict[str, np.ndarray | Ragged]]


@dataclass(frozen=True)
class Generator:
    """The generator of one data set.

    Args:
        schema: its columns.
        draw: (rng, rows) -> all columns except labels: ranks of ids (-1 if missing), numbers (NaN if missing), Ragged lists.
        plan: how labels follow from the columns.
        spelling: {column: the table whose words it uses}, if that is not the table in which it is looked up.
    """

    schema: Schema
    draw: Draw
    plan: Plan
    spelling: dict[str, str] = field(default_factory=dict)

    def generate(self, rows: int, seed: int = 0) -> Iterator[pa.Table]:
        """The first `rows` rows of a seed, as tables of `arrow_schema(schema)` with at most BLOCK rows each.

        Raises:
            CtrlabError: `rows` is below 1, or the seed is negative.
        """
        for count, values, labels, _ in self._blocks(rows, seed):
            yield to_table(self.schema, values | labels, self.spelling).slice(0, count)

    def ceiling(self, rows: int, seed: int = 0) -> dict[str, float]:
        """The planted model's own AUC on the first `rows` rows of a seed, by label: the expected upper limit of any model.

        NaN if all of these rows have the same label. If rows come in pairs, the planted model ignores what a history tells about
        the other row of its pair. A model that learns this could exceed the ceiling by 0.001 (rees46: 0.012).
        """
        from sklearn.metrics import roc_auc_score

        blocks = [(count, labels, scores) for count, _, labels, scores in self._blocks(rows, seed)]
        ceilings = {}
        for task in self.plan.deviation:
            labels = np.concatenate([labels[task][:count] for count, labels, _ in blocks])
            scores = np.concatenate([scores[task][:count] for count, _, scores in blocks])
            ceilings[task] = float(roc_auc_score(labels, scores)) if 0 < labels.mean() < 1 else float("nan")
        return ceilings

    @functools.cached_property
    def planted(self) -> Planted:
        # The sample that scales the parts uses its own random stream, which no caller's seed can select.
        rng = np.random.Generator(np.random.SFC64([1 << 63, 1 << 63]))
        return Planted(self.plan, self.schema, statistics(self.schema.name), self.draw(rng, 2 * BLOCK))

    def _blocks(self, rows: int, seed: int) -> Iterator[tuple]:
        """(rows to keep, values, labels, scores) of each block."""
        if rows < 1 or seed < 0:
            raise CtrlabError(
                f"A generator makes at least one row from a seed of 0 or more; asked were {rows} rows, seed {seed}."
            )
        for start in range(0, rows, BLOCK):
            rng = np.random.Generator(np.random.SFC64([seed, start // BLOCK]))
            values = self.draw(rng, BLOCK)
            labels, scores = self.planted.draw_labels(rng, values, np.arange(start, start + BLOCK))
            yield min(BLOCK, rows - start), values, labels, scores
