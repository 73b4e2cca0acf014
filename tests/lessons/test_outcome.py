"""A prediction beside what was measured."""

import re
import xml.etree.ElementTree as ET

import pytest

from ctrlab.lessons.outcome import Outcome


@pytest.mark.parametrize(
    "name, said, came, words",
    [
        ("speed", 50, 68, "speed: you said 50, measured 68, 1.36 times as much."),
        ("speed", 10, 2, "speed: you said 10, measured 2, 1/5 of it."),
        ("speed", 10, 10.5, "speed: you said 10, measured 10.5, close."),
        ("rows", 10, 125_000, "rows: you said 10, measured 125,000, 12,500 times as much."),
        ("rows", 999.4, 999.7, "rows: you said 999, measured 1,000, close."),
        ("errors", 0.001, 0.00001234, "errors: you said 0.001, measured 0.0000123, 1/81 of it."),
        ("speed", 0, 2, "speed: you said 0, measured 2."),
        ("hit_rate_percent", 50, 68.04, "hit rate: you said 50 %, measured 68 %, 18 points more."),
        ("hits_percent", 2, 0, "hits: you said 2 %, measured 0 %, 2 points less."),
        ("hits_percent", 2, 2.01, "hits: you said 2 %, measured 2.01 %, as you said."),
        ("speed", None, 2, "speed: measured 2; nothing was predicted (lab.predict(speed=...))."),
    ],
)
def test_the_words(name, said, came, words):
    assert repr(Outcome(name, said, came)) == words


def test_what_was_simulated_is_not_called_measured():
    found = Outcome("workers", 8, 37, if_more="Look at the map.", how="simulated")
    assert repr(found) == "workers: you said 8, simulated 37, 4.62 times as much.\nIf you got more: Look at the map."
    assert "measured" not in found._repr_html_() and "simulated 37" in found._repr_html_()
    assert repr(Outcome("workers", None, 2, how="simulated")).startswith("workers: simulated 2; nothing was predicted")


@pytest.mark.parametrize("came", [0, -1e6, float("nan"), float("inf")])
def test_what_has_no_ratio_to_a_guess_is_only_said(came):
    found = Outcome("cost", 3.0, came)
    assert found.difference == "" and "you said 3, measured " in repr(found) and "<svg" not in found._repr_html_()


@pytest.mark.parametrize("name", ["cost", "hits_percent"])
@pytest.mark.parametrize("said", [float("nan"), float("inf")])
def test_a_guess_that_is_no_number_is_only_said(name, said):
    found = Outcome(name, said, 3.0)
    assert found.difference == "" and "<svg" not in found._repr_html_()


def marks(outcome):
    """Where "you said" and "measured" stand in the picture."""
    root = ET.fromstring(outcome._repr_html_().partition("</svg>")[0] + "</svg>")
    texts = ["".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any(t.startswith("you said") for t in texts) and any(t.startswith("measured") for t in texts)
    return [float(e.get("x")) for e in root.iter("{http://www.w3.org/2000/svg}rect")]


@pytest.mark.parametrize("name", ["speed", "hits_percent"])
@pytest.mark.parametrize("said, came", [(50, 68), (68, 50), (0.01, 99), (1, 1.1), (3, 400)])
def test_the_larger_one_stands_further_right_and_both_in_the_picture(name, said, came):
    at_said, at_came = marks(Outcome(name, said, came))
    assert (at_said < at_came) == (said < came) and all(0 <= at <= 640 for at in (at_said, at_came))


def test_equal_ratios_are_equally_far_apart():
    first, second = marks(Outcome("speed", 2, 4)), marks(Outcome("speed", 200, 400))
    assert first == pytest.approx(second)


@pytest.mark.parametrize("came, less", [(59.96, False), (59.94, True), (60, False), (20, True)])
def test_a_share_that_is_as_was_said_did_not_fall_short(came, less):
    found = repr(Outcome("hits_percent", 60, came, "In the cache."))
    assert ("If you got less" in found) == less and ("as you said" in found) != less


def test_who_got_more_may_be_told_too():
    found = Outcome("hits_percent", 0, 20, "In the cache.", "In the <table>.")
    assert "If you got more, look here.</b> In the &lt;table&gt;." in found._repr_html_() and "cache" not in repr(found)
    assert "look" not in Outcome("hits_percent", 20, 20, "In the cache.", "In the table.")._repr_html_()
    assert "If you got" not in repr(Outcome("hits_percent", None, 20, "In the cache.", "In the table."))


def test_where_to_look_is_shown_only_to_who_got_less():
    assert "look here.</b> In the cache &lt;1&gt;." in Outcome("speed", 3, 2, "In the cache <1>.")._repr_html_()
    assert "look here" not in Outcome("speed", 2, 3, "In the cache.")._repr_html_()
    assert not re.search("less", repr(Outcome("speed", 2, 3, "In the cache.")))
