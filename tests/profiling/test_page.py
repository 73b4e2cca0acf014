"""A page of plots: whole, alone, with text from elsewhere escaped; what it lacks is said before the work."""

import importlib.util

import plotly.graph_objects as go
import pytest

from ctrlab.errors import CtrlabError
from ctrlab.profiling import page


def test_a_page_escapes_text_and_carries_plotly_once():
    drawn = page.of_figures([go.Figure(), go.Figure()], "<script>alert(1)</script>")
    assert drawn.startswith("<!doctype html>") and drawn.endswith("</html>\n")
    assert "<script>alert" not in drawn and "&lt;script&gt;alert" in drawn
    assert drawn.count("plotly.js v") == 1 and drawn.count("Plotly.newPlot(") == 2


def test_a_template_of_ones_own_extends_it(tmp_path):
    template = tmp_path / "own.html"
    template.write_text('{% extends "page.html" %}{% block text %}<p>{{ text }}</p>{% endblock %}')
    assert "<p>a &lt; b</p>" in page.of_figures([], "Own", template, text="a < b")


@pytest.mark.parametrize("missing", ["plotly", "jinja2"])
def test_a_library_that_is_missing_is_said_before_the_work(missing, tmp_path, monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else there(name))
    with pytest.raises(CtrlabError, match=rf'Plots need {missing}: pip install "ctrlab\[lab\]", or leave --html out'):
        page.check(tmp_path / "page.html")


def test_a_page_into_no_folder_is_refused_before_the_work(tmp_path):
    with pytest.raises(CtrlabError, match="is not one"):
        page.check(tmp_path / "nowhere" / "page.html")
