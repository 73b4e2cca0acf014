"""The report: one file, all that was measured, nothing from elsewhere."""

import dataclasses
import re

import pytest

from ctrlab.race import figures, report


@pytest.fixture
def raced(fake, plan, run):
    return run(plan)


def test_page_stands_alone(raced, tmp_path):
    report.write(raced, tmp_path / "race.html")
    page = (tmp_path / "race.html").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["race.html", "race.json"]
    assert page.count("plotly.js v") == 1
    assert page.count("Plotly.newPlot(") >= 4 + 3
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page)
    for text in ("wdl", "deepfm", "dlrm", "% of bound", "fake", "2.00 [2.00, 2.00]"):
        assert text in page


def test_figures_show_what_was_measured(raced):
    [totals] = figures.totals(raced).data
    assert list(totals.y) == ["none", "all"]
    assert totals.x == pytest.approx([1800 + 110 + 11600, 0.5 * (1800 + 110 + 11600)])
    none, every, floor = figures.models(raced).data
    assert list(none.y) == [100, 100, 100] and list(every.y) == [50, 50, 50]
    assert list(floor.y) == pytest.approx([1.0] * 3)  # 1e9 flops at 1e11 flop/s: 0.01 s of 1 s a step
    assert figures.waterfall(raced).data
    curves = [figure.data for figure in figures.losses(raced)]
    assert len(curves) == 3 and all(len(c.x) == len(c.y) == 20 for pair in curves for c in pair)
    names = [t.name for t in figures.aucs(raced).data]
    assert names == ["seeds of the baseline", "none", "all", "least that counts", "ceiling of the data"]


def test_a_failed_set_is_said_not_drawn(fake, plan, run):
    fake(die=["wdl", True, "train"])
    raced = run(plan)
    [totals] = figures.totals(raced).data
    assert list(totals.y) == ["none"]
    assert "SIGKILL" in report.page(raced)


def test_a_race_of_which_nothing_counts_still_has_a_page(fake, plan, run):
    fake(die=["wdl", False, "train"])
    raced = run(dataclasses.replace(plan, models=("wdl",)))
    assert "SIGKILL" in report.page(raced)
    assert "Not finished" in report.page(dataclasses.replace(raced, models=()))


def test_text_from_elsewhere_is_escaped(raced):
    odd = dataclasses.replace(raced, models=(dataclasses.replace(raced.models[0], device="<script>alert(1)</script>"),))
    assert "<script>alert" not in report.page(odd)
