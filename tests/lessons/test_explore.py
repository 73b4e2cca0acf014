"""Sliders that redraw a plot."""

import numpy as np
import pytest

from ctrlab.errors import CtrlabError
from ctrlab.lessons.explore import CHOSEN, Explorer
from ctrlab.lessons.session import Lab
from ctrlab.profiling.colours import of_names
from ctrlab.profiling.machine import machine

TITLES = {"x": "words V", "y": "bytes per example"}


def traffic(V, L):
    return {"moved": 4 * V * L, "needed": 12 * L}


@pytest.fixture
def explorer():
    return Explorer(traffic, {"V": [1, 10, 1_000], "L": [2, 3]}, log="xy", **TITLES)


def drawn(explorer) -> dict:
    return {trace.name: (list(trace.x), list(trace.y)) for trace in explorer.chart.data}


def test_what_is_drawn_is_what_was_computed(explorer):
    v, length = explorer.sliders.values()
    assert (v.value, length.value) == (10, 3) and v.options[-1] == ("1,000", 1_000)
    assert drawn(explorer) == {
        "moved": ([1, 10, 1_000], [12, 120, 12_000]),
        "needed": ([1, 10, 1_000], [36, 36, 36]),
        CHOSEN: ([10, 10], [120, 36]),
    }
    assert [trace.line.color for trace in explorer.chart.data[:2]] == list(of_names(["moved", "needed"]).values())


def test_the_first_slider_moves_the_point_and_the_others_choose_the_curve(explorer):
    chart, axes = explorer.chart, (explorer.chart.layout.xaxis.range, explorer.chart.layout.yaxis.range)
    curves = drawn(explorer)
    explorer.sliders["V"].value = 1_000
    assert drawn(explorer) == curves | {CHOSEN: ([1_000, 1_000], [12_000, 36])}
    assert explorer.chart.data[-1].text == ("12,000", "36")
    explorer.sliders["L"].value = 2
    assert drawn(explorer)["moved"] == ([1, 10, 1_000], [8, 80, 8_000])
    assert drawn(explorer)[CHOSEN] == ([1_000, 1_000], [8_000, 24])
    assert explorer.chart is chart and explorer.children[-1] is chart and len(chart.data) == 3
    assert (chart.layout.xaxis.range, chart.layout.yaxis.range) == axes  # so that the eye sees the curve move


def test_a_chart_has_the_title_that_it_is_given(explorer):
    titled = Explorer(traffic, {"V": [1, 10], "L": [2, 3]}, title="Bytes that move", **TITLES)
    assert titled.chart.layout.title.text == "<b>Bytes that move</b>" and "Bytes" not in explorer.chart.layout.title.text


def test_numbers_of_close_points_do_not_overlap():
    explorer = Explorer(lambda V: {"low": V, "high": V + 2, "middle": V + 1}, {"V": [1, 2]}, **TITLES)
    assert explorer.chart.data[-1].textposition == ("bottom center", "top center", "middle right")
    near = Explorer(lambda V: {"low": 1.0, "b": 2.0, "c": 2.1, "high": 100.0}, {"V": [1, 2]}, **TITLES)
    assert near.chart.data[-1].text == ("1", "2", "", "100") and near.chart.data[-1].cliponaxis is False


@pytest.mark.parametrize("how", ["calculated", "simulated", "measured"])
def test_the_machine_stands_only_under_what_was_measured_on_it(how):
    shown = Explorer(traffic, {"V": [1, 10], "L": [2, 3]}, how=how, **TITLES).chart.layout.annotations[0].text
    assert shown == (machine().line if how == "measured" else how)


def test_a_move_is_one_update(explorer, monkeypatch):
    sent = []
    monkeypatch.setattr(explorer.chart, "_send_update_msg", lambda *args, **kw: sent.append(args))
    explorer.sliders["L"].value = 2
    assert len(sent) == 1


@pytest.mark.parametrize("log", ["", "x", "y", "xy"])
def test_all_curves_of_all_choices_lie_on_the_axes(log):
    explorer = Explorer(traffic, {"V": [1, 10, 1_000], "L": [2, 3]}, log=log, **TITLES)
    for letter, values in (("x", (1, 1_000)), ("y", (8, 12_000))):
        axis = explorer.chart.layout[f"{letter}axis"]
        low, high = (10 ** np.array(axis.range) if letter in log else axis.range) if axis.range else (0, 0)
        assert low <= values[0] and high > values[1]
        assert axis.title.text == TITLES[letter] + (" (logarithmic)" if letter in log else "")
        assert axis.type == ("log" if letter in log else None)


@pytest.mark.parametrize(("values", "low"), [((1, 4), 0), ((0.7, 0.8), 0.694), ((-2, 2), -2.24), ((-4, -3), -4.06)])
def test_a_plain_axis_begins_at_0_unless_all_lies_far_above(values, low):
    explorer = Explorer(lambda n: {"y": values[n]}, {"n": [0, 1]}, x="n", y="y")
    assert explorer.chart.layout.yaxis.range[0] == pytest.approx(low)
    assert explorer.chart.layout.yaxis.range[1] > max(values) + 0.1 * (max(values) - min(values))


def test_one_slider_and_a_flat_curve_are_enough():
    explorer = Explorer(lambda n: {"bound": -3.5}, {"n": [7]}, x="n", y="y")
    assert drawn(explorer) == {"bound": ([7], [-3.5]), CHOSEN: ([7], [-3.5])}
    low, high = explorer.chart.layout.yaxis.range
    assert low < -3.5 < high


def test_a_choice_may_be_a_word():
    explorer = Explorer(lambda n, policy: {"hits": n * len(policy)}, {"n": [1, 999.7], "policy": ["lru", "fifo"]}, x="n", y="y")
    assert [label for label, _ in explorer.sliders["policy"].options] == ["lru", "fifo"]
    assert explorer.sliders["n"].options[-1][0] == "1,000"
    explorer.sliders["policy"].value = "lru"
    assert drawn(explorer)["hits"][1] == [3, 3 * 999.7]


@pytest.mark.parametrize(
    ("draw", "choices", "log", "says"),
    [
        (traffic, {"V": ["few", "many"], "L": [1]}, "", r"finite numbers and V has \['few', 'many'\]"),
        (traffic, {"V": [1, float("nan")], "L": [1]}, "", r"finite numbers and V has \[1, nan\]"),
        (traffic, {"V": [1], "L": "lru"}, "", "each has values"),
        (traffic, {"V": [1], "L": 5}, "", "each has values"),
        (traffic, {}, "", "one slider at least"),
        (traffic, {"V": [], "L": [1]}, "", "each has values"),
        (traffic, {"V": [10, 1], "L": [1]}, "", r"values rise and V has \[10, 1\]"),
        (traffic, {"V": [0, 1], "L": [1]}, "x", r"rise, above 0, and V has \[0, 1\]"),
        (traffic, {"V": [1], "L": [0, 1]}, "y", "finite number above 0; 'moved' came to 0"),
        (traffic, {"V": [1], "L": [1]}, "both", "'both' was given"),
        (lambda V: f"{V} bytes", {"V": [1, 2]}, "", "returned '1 bytes' at V = 1"),
        (lambda V: {"a": float("nan")}, {"V": [1, 2]}, "", "'a' came to nan"),
        (lambda V: {"a": "1"}, {"V": [1, 2]}, "", "'a' came to '1'"),
        (lambda V: {f"a{V}": 1}, {"V": [1, 2]}, "", "returned {'a2': 1} at V = 2"),
        (lambda V, L: {f"a{L}": 1}, {"V": [1, 2], "L": [1, 2]}, "", "a1 became a2"),
        (lambda V: {}, {"V": [1, 2]}, "", "of the same curves; it returned {} at V = 1"),
    ],
)
def test_wrong_input_is_one_sentence(draw, choices, log, says):
    with pytest.raises(CtrlabError, match=says):
        Explorer(draw, choices, log=log, **TITLES)


def test_the_lab_shows_it(work, monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    assert Lab("02_ops/01_indicator_column", machine="a CPU").explore(traffic, V=[1, 2], L=[1], **TITLES) is None
    assert shown[0].chart.data[0].name == "moved"
