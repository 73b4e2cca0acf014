"""Charts say what they show, keep colours, and stay small; the live one keeps to its five updates a second."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest

from ctrlab import optimizations
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.profiling import colours, parts
from ctrlab.profiling.parts import PARTS
from ctrlab.profiling.timing import Comparison, Interval
from ctrlab.profiling.traces import OpRow, OpTable
from ctrlab.profiling.waiting import Watch
from ctrlab.profiling.work import Ceilings, Work

charts = pytest.importorskip("ctrlab.profiling.charts", reason="plotly is not installed: pip install ctrlab[lab]")
from ctrlab.profiling.charts import live  # noqa: E402
from ctrlab.profiling.charts.style import decimate, log_ticks, seconds  # noqa: E402

CEILINGS = Ceilings(400e9, 800e9, 60e9, 40e9, 1e8, 1e9, "a machine")


def table(title: str, **parts: float) -> OpTable:
    total = sum(parts.values())
    rows = [OpRow(f"{part}Op", f"{title}/{part}", part, 2, value, value / total) for part, value in parts.items()]
    return OpTable(tuple(rows), 3, total / 2, "a machine", title, threads=3)


def watch(work: float, longest: float) -> Watch:
    times = np.linspace(0, 1, 200)
    return Watch(np.stack([times, np.where(times == 1, longest, 1e-4)], 1), np.stack([times, times * 1e-5], 1), work)


DEEPFM, DIEN = table("deepfm", linear=0.08, tower=0.02), table("dien", gru=0.06, executor=0.03, tower=0.01)
COMPARISON = Comparison.of_samples(
    {"stock": [0.2] * 9, "indicator": [0.001] * 9}, baseline="stock", work=Work(flops=1e6, bytes=6e6), ceilings=CEILINGS
)
FIGURES = {
    "breakdown": lambda: charts.breakdown(DEEPFM),
    "breakdown by type": lambda: charts.breakdown(DIEN, by="type", most=1),
    "breakdowns": lambda: charts.breakdowns([DEEPFM, DIEN]),
    "breakdowns by type": lambda: charts.breakdowns([DEEPFM, DIEN], by="type"),
    "waterfall": lambda: charts.waterfall({"none": 5.0, "indicator": 2.0}, floor=1.0),
    "ladder": lambda: charts.ladder(COMPARISON),
    "latency": lambda: charts.latency({"none": np.linspace(0.01, 0.02, 3000), "all": [0.004] * 3000}),
    "loss curves": lambda: charts.loss_curves({"none": np.ones(5000), "indicator": np.ones(5000)}),
    "bins": lambda: charts.bins([0, 1, 2, 4], {"ids": [2, 1, 1], "traffic": [0, 1, 9]}, title="Often", x="times (ids)"),
    "what if": lambda: charts.what_if([1, 2, 9], {"rows": [1, 0.5, 0]}, title="Threshold", x="threshold", chosen=2),
    "waiting": lambda: charts.waiting({"quiet": watch(0.0, 1e-3), "evicts": watch(0.5, 0.2)}),
    "panels": lambda: charts.panels({"size (%)": {"none": Interval(3.0, 2.0, 5.0, 0.95)}, "AUC": {}}, title="Rungs"),
    "roofline": lambda: charts.roofline(CEILINGS, {"matmul": (Work(flops=1e9, bytes=1e6), 0.01)} | COMPARISON.measurements),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_chart_has_title_units_and_device_and_is_small(name):
    chart = FIGURES[name]()
    assert chart.layout.title.text and chart.layout.xaxis.title.text is not None
    words = " ".join([chart.layout.xaxis.title.text, chart.layout.yaxis.title.text])
    assert any(unit in words for unit in ("%", "(s", "(ms", "step", "GFLOP/s"))
    assert any("machine" in a.text or "thread" in a.text for a in chart.layout.annotations)
    assert len(chart.to_json()) < 40_000


def test_bins_are_named_by_what_they_hold_and_add_up_to_all():
    ids, traffic = charts.bins([0, 1, 2, 4, 8], {"ids": [2, 1, 1, 0], "traffic": [0, 0, 0, 0]}, title="t", x="x").data
    assert list(ids.x) == ["0", "1", "2 to 3", "4 to 7"]
    assert list(ids.y) == [50, 25, 25, 0] and list(traffic.y) == [0, 0, 0, 0]
    assert list(charts.bins([0.125, 0.25, 1], {"ids": [1, 1]}, title="t", x="x", whole=False).data[0].x) == ["0.125", "0.25"]


def test_a_chosen_setting_is_marked():
    chart = charts.what_if([1, 2, 9], {"rows": [1, 0.5, 0], "traffic": [1, 0.9, 0.1]}, title="t", x="x", chosen=2)
    assert chart.layout.shapes[0].x0 == 2 and list(chart.data[1].y) == [100, 90, 10]
    assert len(charts.what_if([3], {"rows": [1]}, title="t", x="x").layout.xaxis.tickvals)


def test_bars_show_the_table():
    bar = charts.breakdown(DEEPFM).data[0]
    assert list(bar.y) == ["linear", "tower"]
    assert list(bar.x) == pytest.approx([80, 20])
    assert list(bar.marker.color) == [colours.of_part("linear"), colours.of_part("tower")]
    stacks = {s.name: list(s.x) for s in charts.breakdowns([DEEPFM, DIEN]).data}
    assert stacks["tower"] == pytest.approx([20, 10]) and stacks["gru"] == pytest.approx([0, 60])
    assert sum(np.array(v) for v in stacks.values()) == pytest.approx([100, 100])


def test_a_breakdown_says_why_its_bars_add_up_to_more_than_the_step():
    short = dataclasses.replace(DIEN, wall=0.1, threads=1)  # as long as its self times
    for chart, times in (
        (charts.breakdown(DEEPFM), "2.00 times the step: ops run on up to 3 threads at once"),
        (charts.breakdown(DIEN.of_part("gru")), "2.00 times the step: ops run on up to 3 threads at once"),
        (charts.breakdowns([DEEPFM, short]), "1.00 to 2.00 times the step: ops run on up to 3 threads at once"),
        (charts.breakdowns([short]), "1.00 times the step<"),
    ):
        assert f"self times add up to {times}" in chart.layout.title.text


def test_the_rest_is_summed_not_dropped():
    bar = charts.breakdown(DIEN, most=1).data[0]
    assert list(bar.y) == ["gru", "2 more"] and sum(bar.x) == pytest.approx(100)
    kept, rest = charts.breakdowns([DEEPFM, DIEN], most=1).data
    assert (kept.name, list(kept.x)) == ("linear", pytest.approx([80, 0]))
    assert (rest.name, list(rest.x)) == ("the rest", pytest.approx([20, 100]))


def test_a_panel_has_each_measure_with_its_interval():
    of = {"none": Interval(3.0, 2.0, 5.0, 0.95), "int8_rows": Interval(1.0, 0.5, 1.5, 0.95)}
    chart = charts.panels({"time (ms)": of, "size (MB)": {"int8_rows": Interval(7.0, 7.0, 7.0, 0.95)}}, title="Rungs")
    assert [(dot.name, dot.y[0], dot.error_y.array[0], dot.error_y.arrayminus[0], dot.yaxis) for dot in chart.data] == [
        ("none", 3.0, 2.0, 1.0, "y"),
        ("int8_rows", 1.0, 0.5, 0.5, "y"),
        ("int8_rows", 7.0, 0.0, 0.0, "y2"),
    ]
    assert chart.data[1].marker.color == chart.data[2].marker.color
    assert (chart.layout.yaxis.title.text, chart.layout.yaxis2.title.text) == ("time (ms)", "size (MB)")
    assert chart.layout.xaxis.domain[1] < chart.layout.xaxis2.domain[0]
    with pytest.raises(CtrlabError, match="at least one measure"):
        charts.panels({}, title="Rungs")


def test_waterfall_steps_start_where_the_last_ended():
    bars = charts.waterfall({"none": 5.0, "indicator": 2.0, "worse": 2.5}).data[-1]
    assert list(bars.base) == [0, 2.0, 2.0, 0]
    assert list(bars.y) == [5.0, 3.0, 0.5, 2.5]
    assert "2.5x" in bars.text[1] and "0.8x" in bars.text[2] and "2x" in bars.text[3]


def test_ladder_says_ratio_interval_and_percent_of_bound():
    chart = charts.ladder(COMPARISON)
    texts = [a.text for a in chart.layout.annotations]
    assert any("<b>200x</b> [200, 200] · 10 % of bound" in t for t in texts)
    (bound,) = (a for a in chart.layout.annotations if a.text.startswith("bound 100 µs"))
    (line,) = chart.layout.shapes
    assert bound.x == pytest.approx(np.log10(line.x0)), "the text stands at its line"


def test_roofline_places_a_point_under_the_line():
    point = charts.roofline(CEILINGS, {"p": (Work(flops=6e9, bytes=6e9), 1.0)}).data[-1]
    assert point.x[0] == 1.0
    assert list(point.y) == pytest.approx([6.0, 60.0]), "6 GFLOP/s done of the 60 that memory allows"
    assert "10 %" in point.text[0]


def test_equal_names_have_equal_colours_everywhere():
    rungs = [rung.name for rung in optimizations.LADDER]
    assert colours.of_names(["none", *rungs]) == colours.of_names([*rungs, "none"])
    assert colours.of_names(["stock"])["stock"] == colours.GREY
    named = colours.of_names(["mine", "yours", rungs[0]])
    assert len(set(named.values())) == 3
    assert len({colours.of_part(p) for p in PARTS}) == len(PARTS)


def test_bad_input_is_one_sentence():
    with pytest.raises(UnknownName, match="Unknown grouping 'types'"):
        charts.breakdown(DEEPFM, by="types")
    with pytest.raises(CtrlabError, match="at least one profile"):
        charts.breakdowns([])
    with pytest.raises(CtrlabError, match="at least one sample"):
        charts.latency({"none": []})
    with pytest.raises(CtrlabError, match="places a computation by its flops; 'p' has none"):
        charts.roofline(CEILINGS, {"p": (Work(bytes=1), 1.0)})
    with pytest.raises(CtrlabError, match="at least the baseline"):
        charts.waterfall({})


def test_latency_marks_say_times_as_people_do():
    marks = charts.latency({"none": [50e-6] * 98 + [12.5e-3] * 2}).data[1]
    assert list(marks.text) == ["p50 50 µs", "p95 50 µs", "p99 12.5 ms"] and marks.mode == "markers+text"
    many = charts.latency({str(i): [50e-6] for i in range(4)}).data[1]
    assert many.mode == "markers" and "%{text}" in many.hovertemplate


def test_a_curve_of_latencies_ends_at_the_share_that_was_answered():
    """600 of 1,000 requests are answered. A chart of these alone would wrongly mark their p99."""
    answered = [0.001 * n for n in range(1, 601)]
    curve, marks = charts.latency({"overloaded": [*answered, *[np.inf] * 400]}).data
    assert curve.y[0] == 0 and curve.y[-1] == 60 and curve.x[-1] == marks.x[-1] == 600
    assert list(marks.text) == ["p50 500 ms", "p95, p99 never"] and list(marks.y) == [50, 60]
    none, answers = charts.latency({"refused": [np.inf] * 3, "fine": [0.001] * 3}).data[::2]
    assert none.name == "refused" and list(none.x) == [None] and answers.y[-1] == 100
    with pytest.raises(CtrlabError, match="at least one answered request"):
        charts.latency({"refused": [np.inf]})


def test_decimation_keeps_ends_and_peaks():
    y = np.zeros(100_000)
    y[[777, 50_001]] = 9, -9
    x, shown = decimate(np.arange(100_000), y, most=1000)
    assert len(x) <= 1000 and x[0] == 0 and x[-1] == 99_999
    assert shown.max() == 9 and shown.min() == -9 and np.all(np.diff(x) > 0)
    assert len(decimate([1, 2], [3, 4])[0]) == 2


def test_words_for_times():
    assert [seconds(v) for v in (2063.25, 2.5, 0.0123, 4e-6, 5e-9, 0)] == ["2,063 s", "2.5 s", "12.3 ms", "4 µs", "5 ns", "0 ns"]
    assert log_ticks(0.3, 12) == [0.5, 1, 2, 5, 10]
    assert log_ticks(185, 232) == [190, 200, 210, 220, 230]


@pytest.fixture
def shown(monkeypatch):
    """A notebook's output area: what was displayed, and what took its place."""
    calls = []

    class Handle:
        def update(self, bundle, raw):
            calls.append(("update", bundle))

    monkeypatch.setattr(live, "in_notebook", lambda: True)
    monkeypatch.setattr(live, "_display", lambda what: calls.append(("display", what)) or Handle())
    return calls


def test_live_chart_updates_five_times_a_second_and_ends_still(shown):
    now = [0.0]
    chart = charts.LiveChart("Training", "loss", clock=lambda: now[0])
    for step in range(3000):
        now[0] = step * 0.001
        chart.add("none", step, 1.0 / (step + 1))
        if step >= 1000:
            chart.add("all", step, 0.5)
    assert 14 <= chart.updates <= 16, "three seconds"
    (kind, widget), *later = shown
    assert kind == "display" and not later, "one widget a chart"
    assert {t.name for t in widget.data} == {"none", "all"} and len(widget.data[0].x) <= 1000
    chart.close()
    chart.close()
    kind, bundle = shown[-1]
    assert kind == "update" and list(bundle) == ["application/vnd.plotly.v1+json"] and len(shown) == 2
    assert len(json.dumps(bundle, default=str)) < 60_000
    assert len(chart.history["none"][0]) == 3000, "the history is whole"
    with pytest.raises(CtrlabError, match="takes no more points"):
        chart.add("none", 1, 1)


def test_live_chart_outside_a_notebook_keeps_its_history():
    with charts.LiveChart("Training", "loss", log=True) as chart:
        chart.add("none", 1, 0.7)
    assert chart.updates == 0 and chart.figure().data[0].name == "none"
    axis = chart.figure().layout.yaxis
    assert (axis.type, axis.tickformat, axis.title.text) == ("log", "~g", "loss (logarithmic)")
    assert charts.LiveChart("Reads", "time (ms)", log=True).figure().layout.yaxis.title.text == "time (ms, logarithmic)"


def test_the_rest_of_the_package_needs_no_plotly():
    code = (
        "import sys; import ctrlab.profiling.timing, ctrlab.profiling.roofline, ctrlab.profiling.traces, ctrlab.profiling.colours"
    )
    found = subprocess.run(
        [sys.executable, "-c", code + "; print({'plotly', 'IPython', 'ipywidgets'} & set(sys.modules))"],
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == "set()", found.stderr


def test_heat_map_says_every_measured_cell_and_frames_the_best():
    points = {(1, 1): Interval(1.2, 1.1, 1.3, 0.95), (2, 1): Interval(1.0, 1.0, 1.0, 1.0), (2, 4): Interval(0.8, 0.7, 0.9, 0.95)}
    chart = charts.heat_map(points, x="intra", y="inter", title="Threads", best=(1, 1))
    [heat] = chart.data
    assert list(heat.x) == ["1", "2"] and list(heat.y) == ["1", "4"]
    assert [list(row) for row in heat.text] == [["1.20x", "1.00x"], ["", "0.80x"]]
    assert heat.z[1][0] is None and heat.customdata[0][0] == "1.10 to 1.30"
    [frame] = chart.layout.shapes
    assert (frame.x0, frame.y0) == (-0.49, -0.49)
    with pytest.raises(CtrlabError, match="at least one measured point"):
        charts.heat_map({}, x="", y="", title="")


def test_waits_have_a_row_for_each_phase_and_shade_the_work():
    chart = FIGURES["waiting"]()
    rows = [(chart.layout[f"yaxis{i}"].type, chart.layout[f"yaxis{i}"].title.text) for i in ("", "2")]
    assert rows == [("log", "quiet<br>(ms)"), ("log", "evicts<br>(ms)")]
    assert [trace.name for trace in chart.data] == ["control", "calls"] * 2
    assert [(shape.x0, shape.x1, shape.xref) for shape in chart.layout.shapes] == [(0, 0.5, "x2")]
    assert max(chart.data[3].y) == pytest.approx(200)
    with pytest.raises(CtrlabError, match="at least one phase"):
        charts.waiting({})


def test_an_ops_new_part_has_a_colour_and_is_found(monkeypatch):
    monkeypatch.setattr(parts, "PARTS", dict(PARTS))
    parts.declare("a_new_part")
    assert parts.part_of("model/a_new_part_2/MatMul") == "a_new_part"
    colour = parts.PARTS["a_new_part"]
    assert colour not in PARTS.values()
    parts.declare("a_new_part")
    assert parts.PARTS["a_new_part"] == colour
