"""The kit that draws figures, and every figure of every lesson."""

import inspect
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.lessons import course, figures, topics
from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, PAD, PALETTE, RED, Figure
from ctrlab.lessons.session import Lab
from ctrlab.profiling.colours import GREY

SVG = "{http://www.w3.org/2000/svg}"
ALL = [
    pytest.param(function, id=f"{entry.name}.{name}")
    for entry in course.lessons()
    for module in filter(None, [topics.module(entry.name, "figures")])
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
]


def everything() -> Figure:
    figure = Figure(700, 500, "Cells & <boxes>")
    first = figure.box(10, 10, 100, 40, 'a "box" <b>\nof & lines', colour=BLUE)
    second = figure.box(200, 90, 100, 40, dashed=True)
    figure.arrow(first.right, second.left, "<rows>")
    figure.arrow(first.bottom, second.bottom, elbow="down", both=True, colour=RED)
    figure.arrow(first.top, second.top, "bent", elbow="across", dashed=True)
    figure.table(
        60, 200, [[1, None, "<"], [PAD]], ids=["7", "&"], header=["x", "y", "z"], name="t", marked={0: GREEN, (1, 0): RED}
    )
    figure.tensor(300, 200, [[1, 2], [3]], axes=("B", "T", "D"))
    figure.queue(400, 300, ["b1", "b2"], capacity=4, name="ready")
    figure.timeline(100, 380, 300, {"read & parse": [(0, 2, 1, BLUE)], "step": [(2, 3, 1, RED)]}, unit="time (ms)")
    figure.plot(450, 100, 100, 60, {"LRU": [(0, 1), (2, 3)], "flat": [(0, 2), (2, 2)]}, axes=("memory", "hits"))
    figure.plot(600, 100, 40, 60, {"one": [(5, 5)]}, axes=("x", "y"), joined=False)
    return figure


def animation() -> Animation:
    return Animation([Figure(100, 50, "first & last"), Figure(100, 50, "last")], ["It is <here>.", "It is gone."])


def texts(element) -> list[str]:
    return [e.text for e in element.iter(f"{SVG}text")]


def sound(shown) -> None:
    """Well-formed, the same bytes each time, titled, inside its frame's width, in the colours of the palette and the page."""
    page = shown._repr_html_()
    assert page == shown._repr_html_()
    tree = ET.fromstring(page)
    for svg in tree.iter(f"{SVG}svg"):
        assert svg.get("role") == "img" and svg.find(f"{SVG}title").text.strip()
        assert "max-width:100%" in svg.get("style") and "var(--jp-content-font-color1, currentColor)" in svg.get("style")
        allowed = {"currentColor", "none", None, GREY, *PALETTE}
        assert {part.get(kind) for part in svg.iter() for kind in ("fill", "stroke")} <= allowed
        assert all(float(part.get("font-size")) >= 12 for part in svg.iter(f"{SVG}text"))
        _, _, width, height = map(float, svg.get("viewBox").split())
        for x, y in places(svg):
            assert -1 <= x <= width + 1 and -1 <= y <= height + 1, f"({x}, {y}) is outside of {width} x {height}"
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|\bblack\b|\bwhite\b(?!-space)|#000|#fff|\bid=", page)


def places(svg):
    for part in svg.iter():
        if points := part.get("points"):
            yield from (tuple(map(float, point.split(","))) for point in points.split())
        elif part.get("x"):
            x, y = float(part.get("x")), float(part.get("y"))
            yield x, y
            yield x + float(part.get("width", 0)), y + float(part.get("height", 0))


@pytest.mark.parametrize("draw", [everything, animation, *ALL])
def test_each_figure_is_sound(draw):
    sound(draw())
    assert draw()._repr_html_() == draw()._repr_html_()


def test_text_is_escaped_and_each_line_stands_alone():
    svg = ET.fromstring(everything()._repr_html_())
    assert svg.find(f"{SVG}title").text == "Cells & <boxes>"
    assert {'a "box" <b>', "of & lines", "<rows>", "<", "read & parse"} <= set(texts(svg))


def test_a_grid_knows_its_cells():
    figure = Figure(300, 200, "grid")
    grid = figure.table(50, 40, [[1, 2, 3], [4]], cell=(20, 10), marked={1: GREEN})
    assert grid.cell(1, 0) == (50, 50, 20, 10) and grid.cell(0, 2).right == (110, 45)
    assert grid.row(0).right == (110, 45) and grid.row(1).right == (70, 55) and grid.whole == (50, 40, 60, 20)
    fills = [rect.get("fill") for rect in ET.fromstring(figure._repr_html_()).iter(f"{SVG}rect")]
    assert fills == ["none"] * 3 + [GREEN]


def test_cells_of_numpy_and_text_that_says_nan():
    figure = Figure(300, 200, "numpy")
    figure.table(50, 40, np.array([[1, 2], [3, 4]]))
    figure.table(150, 40, [[np.float32(0.5), np.str_(PAD), 'say "nan"', float("nan")]])
    svg = ET.fromstring(figure._repr_html_())
    assert texts(svg) == ["1", "2", "3", "4", "0.5", PAD, 'say "nan"', "nan"]
    assert [bool(rect.get("stroke-dasharray")) for rect in svg.iter(f"{SVG}rect")] == [False] * 5 + [True, False, False]


@pytest.mark.parametrize("elbow, end", [("across", (50, 10)), ("down", (10, 50)), ("across", (10, 50)), ("down", (50, 10))])
def test_an_elbow_without_a_bend_is_a_straight_arrow(elbow, end):
    figures_of = [Figure(100, 100, "arrow") for _ in range(2)]
    for figure, kind in zip(figures_of, (elbow, "")):
        figure.arrow((10, 10), end, "label", elbow=kind, both=True)
    assert figures_of[0]._repr_html_() == figures_of[1]._repr_html_()


def test_a_queue_is_emptied_at_the_right():
    figure = Figure(300, 100, "queue")
    figure.queue(10, 10, ["next", "later"], capacity=3)
    assert texts(ET.fromstring(figure._repr_html_())) == [PAD, "later", "next"]


def test_bars_of_a_timeline_lie_where_their_times_say():
    figure = Figure(400, 200, "timeline")
    place = figure.timeline(100, 10, 200, {"a": [(0, 1, "", BLUE), (3, 4, "", BLUE)]}, end=5)
    bars = [(float(r.get("x")), float(r.get("width"))) for r in ET.fromstring(figure._repr_html_()).iter(f"{SVG}rect")]
    assert bars == [(100, 40), (220, 40)] and place.width == 200


def test_an_animation_has_each_frame_its_caption_and_its_controls():
    root = ET.fromstring(animation()._repr_html_())
    frames = list(root.iter("figure"))
    assert ["".join(frame.find("figcaption").itertext()) for frame in frames] == ["It is <here>.", "It is gone."]
    assert all(frame.find(f"{SVG}svg") is not None for frame in frames)
    controls = root.find("div[@class='controls']")
    assert controls.get("hidden") and [button.text for button in controls.iter("button")] == ["Back", "Play", "Next"]
    script = root.find("script").text
    assert "prefers-reduced-motion" in script and script.count("setInterval") == 1 and "play.onclick = () => {" in script


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Figure(800, 100, "too wide"), "1 to 760 wide"),
        (lambda: Figure(100, 100, " "), "has a title"),
        (lambda: everything().arrow((0, 0), (1, 1), elbow="left"), "'left' was given"),
        (lambda: everything().tensor(0, 0, [[1]], axes=()), "0 were given"),
        (lambda: everything().queue(0, 0, [1, 2], capacity=1), "queue of 1 places holds no 2 items"),
        (lambda: everything().plot(0, 0, 9, 9, {"a": []}, axes=("x", "y")), "each of them a point"),
        (lambda: everything().plot(0, 0, 9, 9, {}, axes=("x", "y")), "has a series at least"),
        (lambda: everything().timeline(0, 0, 9, {"a": [(0, 0, "", BLUE)]}), "this one ends at 0"),
        (lambda: everything().timeline(0, 0, 9, {"a": [(0, 1, "", BLUE)]}, end=0), "this one ends at 0"),
        (lambda: everything().timeline(0, 0, 9, {}, end=float("nan")), "this one ends at nan"),
        (lambda: everything().text(float("nan"), 0, "a"), 'finite; .* came to x="nan"'),
        (lambda: everything().arrow((0, 0), (float("inf"), 1)), 'came to points="0,0 inf,1"'),
        (lambda: everything().plot(0, 0, 9, 9, {"a": [(0, float("nan"))]}, axes=("x", "y")), "came to points="),
        (lambda: Animation([everything(), everything()], ["one", "two"], seconds=float("nan")), "more than 0; nan was"),
        (lambda: Animation([everything(), everything()], ["one", "two"], seconds=0), "more than 0; 0 was"),
        (lambda: everything().box(0, 0, 9, 9, colour="#000000"), "colour of a figure"),
        (lambda: Animation([everything()], ["one"]), "1 frames and 1 captions"),
        (lambda: Animation([everything(), everything()], ["one"]), "2 frames and 1 captions"),
        (lambda: Animation([everything(), Figure(10, 10, "small")], ["one", "two"]), "700 x 500, 10 x 10"),
    ],
)
def test_wrong_input_is_one_sentence(wrong, says):
    with pytest.raises(CtrlabError, match=says):
        wrong()


def test_the_lab_shows_a_figure_of_its_lesson(work, monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    Lab("02_ops/01_indicator_column", machine="a CPU").figure("one_hot_to_gather")
    assert isinstance(shown[0], Animation)
    with pytest.raises(UnknownName, match="Did you mean 'one_hot_to_gather'"):
        Lab("02_ops/01_indicator_column", machine="a CPU").figure("one_hot_gather")
    with pytest.raises(CtrlabError, match="01_baseline/99_nowhere has no figures"):
        figures.of_lesson("01_baseline/99_nowhere", "any")
