"""The widget shows what the analysis counts, for every feature and rule."""

import numpy as np
import pytest
from ctrlab.lessons.topics.analysis.table_explorer import EVERY, VIEWS, TableExplorer, explore_table

from ctrlab.embedding import analysis
from ctrlab.embedding.table_state import TableState
from ctrlab.profiling.charts.style import logarithmic


def state(rng, n: int, m: int) -> TableState:
    return TableState(
        np.arange(n),
        rng.standard_normal((n, 4)).astype(np.float32),
        {},
        rng.zipf(1.5, n).clip(1, 1000),
        rng.integers(1, 50, n),
        np.arange(n, n + m),
        np.ones(m, np.int64),
        rng.integers(1, 50, m),
    )


@pytest.fixture(scope="module")
def report():
    rng = np.random.default_rng(3)
    return analysis.report({"item": state(rng, 200, 50), "user": state(rng, 20, 0)})


def test_every_choice_shows_its_own_curve(report):
    explorer = explore_table(report)
    for feature in (EVERY, "item", "user"):
        explorer.feature.value = feature
        table = report if feature == EVERY else analysis.of_feature(report, feature)
        for rule, view in VIEWS.items():
            explorer.rule.value = rule
            settings = [value for _, value in explorer.setting.options]
            left, whole = view.what_if(table, settings), view.what_if(table, [view.loosest])
            curves = {trace.name: np.asarray(trace.y) / 100 for trace in explorer.chart.data}
            np.testing.assert_allclose(curves["rows"], left.rows / whole.rows[0])
            np.testing.assert_allclose(curves["bytes"], left.bytes / whole.bytes[0])
            np.testing.assert_allclose(curves["traffic"], left.traffic)
            assert view.title in explorer.chart.layout.title.text
            assert explorer.chart.layout.xaxis.title.text == logarithmic(view.x)


def test_the_slider_moves_the_mark_and_the_answer(report):
    explorer = TableExplorer(report)
    settings = [value for _, value in explorer.setting.options]
    for chosen in (settings[0], settings[-1]):
        explorer.setting.value = chosen
        assert explorer.chart.layout.shapes[0].x0 == explorer.chart.layout.shapes[0].x1 == chosen
        assert f"({analysis.admission(report, [chosen]).rows[0]:,} rows" in explorer.answer.value
    assert len(explorer.chart.data) == 3


def test_an_empty_report_and_equal_keys_can_be_looked_at():
    same = TableState(np.arange(3), np.zeros((3, 2), np.float32), {}, np.ones(3, np.int64), np.ones(3, np.int64))
    for table in (analysis.report({}), analysis.report({"t": same})):
        explorer = TableExplorer(table)
        for rule in VIEWS:
            explorer.rule.value = rule
