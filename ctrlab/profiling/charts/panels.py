"""Several measures of the same things, side by side: a panel for each measure, with a dot and its interval for each thing."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from ctrlab.errors import CtrlabError
from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import figure
from ctrlab.profiling.timing import Interval

GAP = 0.09  # of the width, between two panels


def panels(measures: Mapping[str, Mapping[str, Interval]], *, title: str, note: str = "", device: str = "") -> go.Figure:
    """A panel for each measure.

    Args:
        measures: {measure, with its unit: {name: interval}}. A name has the same colour in all panels.
    Raises:
        CtrlabError: there are no measures.
    """
    if not measures:
        raise CtrlabError("A chart of panels needs at least one measure; none was given.")
    names = list(dict.fromkeys(name for of in measures.values() for name in of))
    colour = colours.of_names(names)
    width = (1 - GAP * (len(measures) - 1)) / len(measures)
    chart = figure([], title, x="", y="", note=note, device=device)
    for k, (measure, of) in enumerate(measures.items()):
        axis, left = str(k + 1) if k else "", k * (width + GAP)
        for name, each in of.items():
            dot = go.Scatter(
                x=[name],
                y=[each.median],
                error_y={"type": "data", "symmetric": False, "array": [each.high - each.median]}
                | {"arrayminus": [each.median - each.low]},
                mode="markers",
                marker={"color": colour[name], "size": 12},
                name=name,
                legendgroup=name,
                showlegend=k == 0,
                xaxis=f"x{axis}",
                yaxis=f"y{axis}",
                hovertemplate=f"{name}: %{{y:.5g}} [{each.low:.5g}, {each.high:.5g}]<extra></extra>",
            )
            chart.add_trace(dot)
        across = {"domain": [left, min(1.0, left + width)], "anchor": f"y{axis}", "title": {"text": ""}, "showticklabels": False}
        upright = {"anchor": f"x{axis}", "title": {"text": measure}, "tickformat": "~g", "rangemode": "tozero"}
        chart.update_layout({f"xaxis{axis}": across, f"yaxis{axis}": upright})
    return chart
