"""Charts of data instead of time: frequencies of ids, and shares as bars."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import figure, log_ticks

MOST_POINTS = 200


def rank_frequency(
    counts: Mapping[str, np.ndarray], exponents: Mapping[str, float] | None = None, *, title: str, least: int = 10
) -> go.Figure:
    """The number of occurrences of each id over its rank, with logarithmic axes: a power law is a straight line.

    Args:
        counts: by column, int [V] in any order.
        exponents: exponents of the lines to draw, if they are numbers; a line goes through the middle of its points.
        least: the count at which those lines end; smaller counts were not fitted.
    """
    colour, traces, highest, longest = colours.of_names(counts), [], 1, 1
    for name, values in counts.items():
        often = np.sort(values)[::-1]
        highest, longest = max(highest, often.max(initial=1)), max(longest, len(often))
        ranks = np.unique(np.geomspace(1, max(1, len(often)), MOST_POINTS).astype(int))  # even on the logarithmic axis
        ranks = ranks[ranks <= len(often)]
        marks = {"color": colour[name], "size": 5}
        traces.append(go.Scatter(x=ranks, y=often[ranks - 1], mode="markers", name=name, marker=marks))
        exponent = (exponents or {}).get(name, np.nan)
        if np.isfinite(exponent):
            fitted = np.arange(1, np.count_nonzero(often >= least) + 1)
            middle = np.mean(np.log(often[fitted - 1])) + exponent * np.mean(np.log(fitted))
            ends = fitted[[0, -1]]
            traces.append(
                go.Scatter(
                    x=ends,
                    y=np.exp(middle) * ends**-exponent,
                    mode="lines",
                    name=f"exponent {exponent:.2f}",
                    line={"color": colour[name], "width": 2, "dash": "dash"},
                )
            )
    fits = len(traces) > len(counts)
    chart = figure(
        traces,
        title,
        x="rank of the id, the most frequent first (logarithmic)",
        y="how often it comes (logarithmic)",
        note="a power law is a straight line" + "; the dashed lines end where counts are too small to fit" * fits,
        height=460,
        margin_t=118,
    )
    for axis, most in (("xaxis", longest), ("yaxis", highest)):
        ticks = [tick for tick in log_ticks(1, most) if np.log10(tick).is_integer()]
        span = [-0.1, np.log10(most) + 0.2]
        chart.update_layout({axis: {"type": "log", "tickvals": ticks, "ticktext": [f"{t:,.0f}" for t in ticks], "range": span}})
    return chart


def shares(values: Mapping[str, float], *, title: str, x: str, y: str, note: str = "") -> go.Figure:
    """One bar per name, with its share, from 0 to 1, in percent."""
    heights = [100 * value for value in values.values()]
    hover = "%{x}: %{y:.1f} %<extra></extra>"
    said = {"text": [f"{height:.3g} %" for height in heights] if len(heights) < 10 else None, "textposition": "outside"}
    bars = go.Bar(x=list(values), y=heights, marker_color=colours.PALETTE[0], hovertemplate=hover, cliponaxis=False, **said)
    return figure([bars], title, x=x, y=y, note=note, xaxis_type="category", height=360)
