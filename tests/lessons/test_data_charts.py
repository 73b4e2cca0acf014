"""The charts of data: what is drawn is what was counted."""

import numpy as np

from ctrlab.lessons import data_charts


def test_the_fitted_line_lies_on_a_power_law():
    counts = 1e6 * np.arange(1.0, 200.0) ** -1.2
    chart = data_charts.rank_frequency({"C": counts[::-1]}, {"C": 1.2}, title="t")
    assert "the dashed lines" in chart.layout.title.text
    points, line = chart.data
    assert points.x[0] == 1 and points.x[-1] == 199 and np.all(np.diff(points.y) <= 0)
    np.testing.assert_allclose(line.y, [counts[0], counts[-1]], rtol=1e-9)


def test_no_line_without_an_exponent_and_no_points_without_ids():
    chart = data_charts.rank_frequency({"C": np.zeros(0, np.int64), "D": np.ones(3)}, {"C": float("nan")}, title="t")
    assert [len(trace.x) for trace in chart.data][1] > 0 and len(chart.data) == 2
    assert "the dashed lines" not in chart.layout.title.text


def test_shares_are_percent():
    few = data_charts.shares({"I1": 0.25, "7": 1.0}, title="t", x="x", y="y").data[0]
    assert list(few.y) == [25, 100] and list(few.text) == ["25 %", "100 %"]
    many = data_charts.shares(dict.fromkeys(range(26), 0.25), title="t", x="x", y="y").data[0]
    assert many.text is None, "26 would lie on each other"
