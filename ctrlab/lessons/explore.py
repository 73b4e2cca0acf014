"""Sliders that redraw a plot: the first slider is the x axis and moves a point, the others choose the curves."""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Mapping, Sequence, Sized

import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go

from ctrlab.errors import CtrlabError
from ctrlab.lessons.outcome import plain
from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import figure, log_ticks, logarithmic

CHOSEN = "chosen"
LOGARITHMIC = ("", "x", "y", "xy")
LOOKS = ("log", "title", "how")
APART = 0.07
"""The least distance of two numbers in a chart, as a fraction of its height."""


class Explorer(widgets.VBox):
    """One slider per choice above one plot. Everything is computed once, so the axes stay still while the curves move.

    >>> Explorer(lambda V, L: {"moved": 4 * V * L, "needed": 8 * L}, {"V": [2, 10, 100], "L": [1, 5]},
    ...          x="words V", y="bytes per example", log="xy")  # doctest: +SKIP

    Args:
        draw: called with one value of each choice; returns {curve: its y value there}, always of the same curves.
        choices: {name: values}. The first one's values are the x values of all curves, rising numbers; others may be words.
        x, y: titles of the axes, with units. title: title of the chart.
        log: which axes are logarithmic: "", "x", "y" or "xy".
        how: how the curves were obtained, in a word for the chart's corner; "measured" stands for this machine's line.
    Attributes:
        sliders: by name. chart: the FigureWidget; its last trace holds the chosen points.
    Raises:
        CtrlabError: there is no choice, or `draw` returns something else.
    """

    def __init__(
        self,
        draw: Callable[..., Mapping[str, float]],
        choices: Mapping[str, Sequence],
        *,
        x: str,
        y: str,
        log: str = "",
        title: str = "",
        how: str = "calculated",
    ):
        if log not in LOGARITHMIC:
            raise CtrlabError(f'The axes that are logarithmic are "", "x", "y" or "xy"; {log!r} was given.')
        if not choices or not all(isinstance(v, Sized) and not isinstance(v, str) and len(v) for v in choices.values()):
            raise CtrlabError(
                "A plot is explored by one slider at least, and each has values: lab.explore(draw, ..., V=[1, 10])."
            )
        self._along, *self._others = choices
        self._x = list(choices[self._along])
        if not all(isinstance(value, numbers.Real) and np.isfinite(value) for value in self._x):
            raise CtrlabError(f"The first slider is the x axis: its values are finite numbers and {self._along} has {self._x}.")
        if self._x != sorted(set(self._x)) or (log.startswith("x") and self._x[0] <= 0):
            least = ", above 0," if log.startswith("x") else ""
            raise CtrlabError(f"The first slider is the x axis: its values rise{least} and {self._along} has {self._x}.")
        self._curves = {others: self._computed(draw, others) for others in itertools.product(*list(choices.values())[1:])}
        names = list(next(iter(self._curves.values())))
        for curves in self._curves.values():
            _check(curves, names, log)
        width = f"{max(80, 8 + 9 * max(map(len, choices)))}px"  # so that no name is cut off
        self.sliders = {name: _slider(name, values, width) for name, values in choices.items()}
        self.chart = go.FigureWidget(self._figure(names, title, x, y, log, how))
        self._redraw()
        for slider in self.sliders.values():
            slider.observe(self._redraw, names="value")
        super().__init__([*self.sliders.values(), self.chart])

    def _computed(self, draw: Callable, others: tuple) -> dict[str, list]:
        points = []
        for value in self._x:
            points.append(draw(**{self._along: value}, **dict(zip(self._others, others))))
            if not isinstance(points[-1], Mapping) or not points[-1] or points[-1].keys() != points[0].keys():
                raise CtrlabError(
                    "What is explored returns a dictionary {curve: number}, always of the same curves; "
                    f"it returned {repr(points[-1])[:60]} at {self._along} = {value}."
                )
        return {name: [point[name] for point in points] for name in points[0]}

    def _figure(self, names: Sequence[str], title: str, x: str, y: str, log: str, how: str) -> go.Figure:
        colour = colours.of_names(names)
        traces = [go.Scatter(name=name, mode="lines+markers", line={"color": colour[name], "width": 2.5}) for name in names]
        point = {"size": 13, "color": [colour[name] for name in names], "line": {"width": 2, "color": colours.DARK}}
        over_lines = {"shadow": ", ".join(["0 0 3px white"] * 4)}
        traces.append(
            go.Scatter(name=CHOSEN, mode="markers+text", marker=point, textfont=over_lines, showlegend=False, cliponaxis=False)
        )
        every = [value for curves in self._curves.values() for values in curves.values() for value in values]
        titles = {axis: logarithmic(title) if axis in log else title for axis, title in (("x", x), ("y", y))}
        corner = "" if how == "measured" else how
        chart = figure(traces, title, **titles, device=corner, height=380, showlegend=True, margin_t=60 if title else 40)
        chart.update_xaxes(**_axis(self._x, "x" in log))
        return chart.update_yaxes(**_axis(every, "y" in log))

    def _redraw(self, _=None) -> None:
        curves = self._curves[tuple(self.sliders[name].value for name in self._others)]
        at = self.sliders[self._along].value
        heights = [values[self._x.index(at)] for values in curves.values()]
        with self.chart.batch_update():
            *traces, chosen = self.chart.data
            for trace, values in zip(traces, curves.values()):
                trace.x, trace.y = self._x, values
            chosen.x, chosen.y = [at] * len(heights), heights
            low, high = self.chart.layout.yaxis.range
            places = [math.log10(h) if self.chart.layout.yaxis.type == "log" else h for h in heights]
            chosen.text, chosen.textposition = _labels(heights, [(place - low) / (high - low) for place in places])


def _labels(heights: Sequence[float], places: Sequence[float]) -> tuple[list[str], list[str]]:
    """The numbers beside the points, and where they stand: the highest above, the lowest below, others beside. One that would
    stand in another is left out.

    Args:
        places: of the heights, 0 to 1 along the axis.
    """
    texts, positions = [plain(height) for height in heights], ["middle right"] * len(heights)
    order = np.argsort(places)
    positions[order[0]], positions[order[-1]] = "bottom center", "top center"
    last = places[order[0]] - APART
    for n in order[1:-1]:
        if places[n] - last < APART or places[order[-1]] - places[n] < APART / 2:
            texts[n] = ""
        else:
            last = places[n]
    return texts, positions


def _slider(name: str, values: Sequence, width: str) -> widgets.SelectionSlider:
    options = [(plain(value) if isinstance(value, numbers.Real) else str(value), value) for value in values]
    looks = {"style": {"description_width": width}, "layout": {"width": "420px"}}
    return widgets.SelectionSlider(options=options, value=values[len(values) // 2], description=name, **looks)


def _check(curves: Mapping[str, Sequence[float]], names: Sequence[str], log: str) -> None:
    if list(curves) != names:
        raise CtrlabError(f"The curves are the same for every choice; {', '.join(names)} became {', '.join(curves)}.")
    for name, values in curves.items():
        for value in values:
            if not isinstance(value, numbers.Real) or not np.isfinite(value) or ("y" in log and value <= 0):
                above = " above 0" if "y" in log else ""
                raise CtrlabError(f"Each point of a curve is a finite number{above}; {name!r} came to {value!r}.")


def _axis(values: Sequence[float], log: bool) -> dict:
    low, high = min(values), max(values)
    if log:
        ticks = log_ticks(low, max(high, 1.01 * low))
        if len(ticks) > 8:
            ticks = [tick for tick in ticks if np.log10(tick) % 1 == 0]
        margin = 0.06 * np.log10(max(high / low, 1.2))
        span = [np.log10(low) - margin, np.log10(high) + 2 * margin]
        return {"type": "log", "range": span, "tickvals": ticks, "ticktext": [plain(tick) for tick in ticks]}
    low = min(low, 0) if low < high / 2 else low  # from 0, unless all values lie far above it
    margin = 0.06 * (high - low or abs(high) or 1)
    return {"range": [low - (low != 0) * margin, high + 2 * margin]}
