"""Generates any number of rows of a data set: values from its statistics, labels from its planted model.

Rows are made in blocks of BLOCK rows. Block b of a seed is always the same, whatever the number of rows. The planted model does
not depend on the seed, so another seed gives new data with the same relation between features and labels.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ctrlab.data.engine import Engine
from ctrlab.data.marginals import statistics
from ctrlab.data.planted import Plan, Planted
from ctrlab.data.words import Ragged, to_table
from ctrlab.errors import CtrlabError
from ctrlab.schema import Schema

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

    def generate(self, rows: int, seed: int = 0, engine: Engine = map) -> Iterator[pa.Table]:
        """The first `rows` rows of a seed, as tables of `arrow_schema(schema)` with at most BLOCK rows each.

        Raises:
            CtrlabError: `rows` is below 1, or the seed is negative.
        """
        for start, table in zip(*self._mapped(self._table, rows, seed, engine)):
            yield table.slice(0, rows - start)

    def ceiling(self, rows: int, seed: int = 0, engine: Engine = map) -> dict[str, float]:
        """The planted model's own AUC on the first `rows` rows of a seed, by label: the expected upper limit of any model.

        NaN if all of these rows have the same label. If rows come in pairs, the planted model ignores what a history tells about
        the other row of its pair. A model that learns this could exceed the ceiling by 0.001 (rees46: 0.012).
        """
        from sklearn.metrics import roc_auc_score

        _, blocks = self._mapped(self._labels, rows, seed, engine)
        of_labels, of_scores = zip(*blocks)
        ceilings = {}
        for task in self.plan.deviation:
            labels, scores = (np.concatenate([b[task] for b in each])[:rows] for each in (of_labels, of_scores))
            ceilings[task] = float(roc_auc_score(labels, scores)) if 0 < labels.mean() < 1 else float("nan")
        return ceilings

    @functools.cached_property
    def planted(self) -> Planted:
        # The sample that scales the parts uses its own random stream, which no caller's seed can select.
        rng = np.random.Generator(np.random.SFC64([1 << 63, 1 << 63]))
        return Planted(self.plan, self.schema, statistics(self.schema.name), self.draw(rng, 2 * BLOCK))

    def _mapped(self, make: Callable, rows: int, seed: int, engine: Engine) -> tuple[range, Iterable]:
        """Yields the number of each block's first row, and the result of `make(start, seed)` for it."""
        if rows < 1 or seed < 0:
            raise CtrlabError(
                f"A generator makes at least one row from a seed of 0 or more; asked were {rows} rows, seed {seed}."
            )
        starts = range(0, rows, BLOCK)
        return starts, engine(functools.partial(make, seed=seed), starts)

    def _table(self, start: int, seed: int) -> pa.Table:
        values, labels, _ = self._block(start, seed)
        return to_table(self.schema, values | labels, self.spelling)

    def _labels(self, start: int, seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The labels and the scores of a block, by task: [BLOCK]."""
        return self._block(start, seed)[1:]

    def _block(self, start: int, seed: int) -> tuple[dict, dict, dict]:
        """The values, labels and scores of the block whose first row has the number `start`."""
        rng = np.random.Generator(np.random.SFC64([seed, start // BLOCK]))
        values = self.draw(rng, BLOCK)
        return values, *self.planted.draw_labels(rng, values, np.arange(start, start + BLOCK))
