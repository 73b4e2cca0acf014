"""The report: one file, all that was measured, nothing from elsewhere."""

import dataclasses
import json
import re

import pytest

from ctrlab.errors import CtrlabError
from ctrlab.race import figures, report


@pytest.fixture
def raced(fake, plan, run):
    return run(plan)


def test_page_stands_alone(raced, tmp_path):
    report.write(raced, tmp_path / "race.html")
    page = (tmp_path / "race.html").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["race.html", "race.json"]
    assert page.count("<script>") == 1 + 5 and "plotly.js v" in page[:10_000]
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page.replace(report.plotly_js(), ""))
    for text in ("wdl", "deepfm", "dlrm", "% of bound", "fake", "2.00 [2.00, 2.00]"):
        assert text in page


def test_figures_show_what_was_measured(raced):
    totals = figures.totals(raced)["data"][0]
    assert totals["y"] == ["none", "all"]
    assert totals["x"] == pytest.approx([1800 + 110 + 11600, 0.5 * (1800 + 110) + 11600])
    none, every, floor = figures.models(raced)["data"]
    assert none["y"] == [100, 100, 100] and every["y"] == [50, 50, 100]
    assert floor["y"] == pytest.approx([1.0] * 3)  # 1e9 flops at 1e11 flop/s: 0.01 s of 1 s a step
    fall = figures.waterfall(raced)["data"][0]
    assert fall["measure"] == ["absolute", "relative", "total"]
    assert sum(fall["y"]) == pytest.approx(totals["x"][1])
    curves = figures.losses(raced)["data"]
    assert len(curves) == 6 and all(len(c["x"]) == len(c["y"]) == 20 for c in curves)
    names = [t["name"] for t in figures.aucs(raced)["data"]]
    assert names == ["baseline's seeds", "none", "all", "least that counts", "ceiling of the data"]


def test_a_failed_set_is_said_not_drawn(fake, plan, run):
    fake(die=["wdl", True, "train"])
    raced = run(plan)
    assert figures.totals(raced)["data"][0]["y"] == ["none"]
    assert "SIGKILL" in report.page(raced)
    json.dumps([draw(raced) for draw in (figures.models, figures.waterfall, figures.losses, figures.aucs)], allow_nan=False)


def test_text_from_elsewhere_is_escaped(raced):
    odd = dataclasses.replace(raced, models=(dataclasses.replace(raced.models[0], device="<script>alert(1)</script>"),))
    assert "<script>alert" not in report.page(odd)


def test_a_report_into_no_folder_is_refused_before_the_race(tmp_path):
    with pytest.raises(CtrlabError, match="does not"):
        report.check(tmp_path / "nowhere" / "race.html")
