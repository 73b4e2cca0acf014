"""Charts of an embedding table's content: ids and traffic in bins, and what each setting would keep."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import figure, log_ticks, logarithmic


def bins(
    edges: Sequence[float], heights: Mapping[str, Sequence[float]], *, title: str, x: str, note: str = "", whole: bool = True
) -> go.Figure:
    """Grouped bars: the share of each series in each bin.

    Args:
        edges: n + 1 ascending numbers for n bins.
        heights: {"ids": [n], "traffic": [n]}: the amount in each bin; shown in percent of the sum.
        whole: edges are whole numbers, so a bin from 4 to 8 is labelled "4 to 7".
    """
    names = [_span(a, b, whole) for a, b in itertools.pairwise(edges)]
    colour = colours.of_names(heights)
    bars = [
        go.Bar(
            x=names,
            y=100 * np.asarray(values, np.float64) / max(np.sum(values), 1),
            name=name,
            marker_color=colour[name],
            hovertemplate="%{x}: %{y:.1f} % of the " + name + "<extra></extra>",
        )
        for name, values in heights.items()
    ]
    return figure(bars, title, x=x, y="share (%)", note=note, xaxis_type="category", barmode="group", bargap=0.2)


def what_if(
    settings: Sequence[float],
    shares: Mapping[str, Sequence[float]],
    *,
    title: str,
    x: str,
    note: str = "",
    chosen: float | None = None,
) -> go.Figure:
    """The percentage that each setting keeps, with the settings on a logarithmic axis.

    Args:
        shares: {"rows": [n], "traffic": [n]}, from 0 to 1.
        chosen: a setting to mark with a line.
    """
    settings = np.asarray(settings, np.float64)
    colour = colours.of_names(shares)
    lines = [
        go.Scatter(
            x=settings,
            y=100 * np.asarray(values, np.float64),
            name=name,
            mode="lines+markers",
            line={"color": colour[name], "width": 2.5},
            marker={"size": 5},
            hovertemplate="%{x}: %{y:.1f} % of the " + name + "<extra></extra>",
        )
        for name, values in shares.items()
    ]
    chart = figure(lines, title, x=logarithmic(x), y="what is left (%)", note=note, yaxis_range=[0, 104])
    ticks = log_ticks(settings.min(), max(settings.max(), 1.01 * settings.min()))
    chart.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    if chosen is not None:
        chart.add_vline(x=chosen, line={"color": colours.DARK, "width": 2, "dash": "dash"})
    return chart


def _span(a: float, b: float, whole: bool) -> str:
    if not whole:
        return f"{a:.3g}"
    return f"{a:g}" if b - a == 1 else f"{a:g} to {b - 1:g}"
