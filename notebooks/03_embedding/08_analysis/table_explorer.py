"""Sliders over the report of an embedding: the rows that each setting of admission or eviction would leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
from IPython.display import display

from ctrlab.embedding import analysis
from ctrlab.profiling import charts

EVERY = "all features"
MOST_SETTINGS = 40
# Below the chart, which is too narrow for it.
NOTE = "Rows and bytes against all that could stay; traffic: occurrences in training whose key has a row."


@dataclass(frozen=True)
class View:
    """A setting that the slider changes.

    Attributes:
        what_if: (report, settings) -> the rows that each would leave.
        settings: report -> the settings to choose from, rising.
        loosest: the setting that leaves everything.
    """

    title: str
    x: str
    what_if: Callable[[pa.Table, Sequence[float]], analysis.WhatIf]
    settings: Callable[[pa.Table], np.ndarray]
    loosest: float


def _times(table: pa.Table) -> np.ndarray:
    return _whole(table["frequency"].to_numpy().max(initial=1))


def _steps(table: pa.Table) -> np.ndarray:
    return _whole(np.ptp(table["last_step"].to_numpy()) if len(table) else 1)


def _whole(most: int) -> np.ndarray:
    return np.unique(np.geomspace(1, max(2, most), MOST_SETTINGS).round().astype(np.int64))


def _norms(table: pa.Table) -> np.ndarray:
    norm = table["norm"].drop_null().to_numpy()
    norm = norm[np.isfinite(norm) & (norm > 0)]
    low, high = (norm.min(), norm.max()) if len(norm) else (0.1, 1.0)
    return np.geomspace(low, max(high, 1.1 * low), MOST_SETTINGS).astype(np.float64)


VIEWS = {
    "admission": View("Admit a key when it has come so often", "threshold (times)", analysis.admission, _times, 0),
    "eviction by age": View(
        "Let a key go that has not come for so long", "steps to live (steps)", analysis.eviction, _steps, np.iinfo(np.int64).max
    ),
    "eviction by norm": View("Let a row go whose vector is shorter", "L2 threshold (norm)", analysis.eviction_by_norm, _norms, 0),
}


def explore_table(table: pa.Table) -> TableExplorer:
    """Choose a feature, a rule and its setting, and see the remaining rows, bytes and traffic.

    Args:
        table: a report, see `ctrlab.embedding.analysis`.
    """
    explorer = TableExplorer(table)
    display(explorer.box)
    return explorer


class TableExplorer:
    """The widgets, and the one figure that they redraw.

    Attributes:
        feature, rule, setting: the controls. chart: a FigureWidget. answer: a line of text. box: all of them.
    """

    def __init__(self, table: pa.Table):
        self._table = table
        features = table["feature"].unique().cast(pa.string()).to_pylist()
        self.feature = widgets.Dropdown(options=[EVERY, *features], description="feature")
        self.rule = widgets.ToggleButtons(options=list(VIEWS), description="rule")
        self.setting = widgets.SelectionSlider(options=[1], description="setting")
        self.answer = widgets.HTML()
        self.chart = go.FigureWidget(self._measure())
        self.feature.observe(self._renew, names="value")
        self.rule.observe(self._renew, names="value")
        self.setting.observe(self._mark, names="value")
        self._mark()
        self.box = widgets.VBox([self.feature, self.rule, self.setting, self.chart, self.answer])

    def _measure(self) -> go.Figure:
        """Counts again the rows that each setting would leave, and offers these settings."""
        every = self.feature.value == EVERY
        table = self._table if every else analysis.of_feature(self._table, self.feature.value)
        view = VIEWS[self.rule.value]
        self._left, whole = view.what_if(table, view.settings(table)), view.what_if(table, [view.loosest])
        self._shares = {
            "rows": self._left.rows / max(whole.rows[0], 1),
            "bytes": self._left.bytes / max(whole.bytes[0], 1),
            "traffic": self._left.traffic,
        }
        settings = self._left.settings.tolist()
        self.setting.options = [(f"{s:,.3g}" if isinstance(s, float) else f"{s:,}", s) for s in settings]
        self.setting.value = settings[len(settings) // 4]
        return charts.what_if(settings, self._shares, title=view.title, x=view.x, chosen=self.setting.value)

    def _renew(self, _=None) -> None:
        drawn = self._measure()
        with self.chart.batch_update():
            for trace, new in zip(self.chart.data, drawn.data):
                trace.x, trace.y = new.x, new.y
            self.chart.layout = drawn.layout
        self._mark()

    def _mark(self, _=None) -> None:
        place = self._left.settings.tolist().index(self.setting.value)
        with self.chart.batch_update():
            self.chart.layout.shapes[0].x0 = self.chart.layout.shapes[0].x1 = self.setting.value
        shares = ", ".join(f"<b>{values[place]:.1%}</b> of the {name}" for name, values in self._shares.items())
        left = f"{self._left.rows[place]:,} rows, {_size(self._left.bytes[place])}"
        self.answer.value = f"{self.setting.label}: {shares} ({left})<br>{NOTE}"


def _size(size: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1_000:
            return f"{size:.3g} {unit}"
        size /= 1_000
    return f"{size:,.3g} GB"
