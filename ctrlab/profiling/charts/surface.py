"""The heat map of a measurement over two settings."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go

from ctrlab.errors import CtrlabError
from ctrlab.profiling.charts.style import figure
from ctrlab.profiling.timing import Interval

# Blue below 1, white at 1, orange above: colour-blind people can distinguish them.
SCALE = [[0.0, "#2b6ca8"], [0.5, "#f7f7f7"], [1.0, "#d9730d"]]


def heat_map(
    points: Mapping[tuple[int, int], Interval],
    *,
    x: str,
    y: str,
    title: str,
    best: tuple[int, int] | None = None,
    device: str = "",
) -> go.Figure:
    """Speed-ups over two settings. Each cell shows its median, and its interval under the pointer. Unmeasured cells are empty.

    Args:
        points: {(x, y): speed relative to the baseline}.
        best: the chosen cell, which gets a frame.
    Raises:
        CtrlabError: there are no points.
    """
    if not points:
        raise CtrlabError("A heat map needs at least one measured point; none was given.")
    xs, ys = (sorted({point[axis] for point in points}) for axis in (0, 1))
    cells = [[points.get((i, j)) for i in xs] for j in ys]
    reach = max(0.1, *(abs(p.median - 1.0) for p in points.values()))
    heat = go.Heatmap(
        x=[str(i) for i in xs],
        y=[str(j) for j in ys],
        z=[[p and p.median for p in row] for row in cells],
        text=[[f"{p.median:.2f}x" if p else "" for p in row] for row in cells],
        customdata=[[f"{p.low:.2f} to {p.high:.2f}" if p else "" for p in row] for row in cells],
        texttemplate="%{text}",
        hovertemplate=f"{x} %{{x}}, {y} %{{y}}: %{{text}} (%{{customdata}})<extra></extra>",
        colorscale=SCALE,
        zmin=1.0 - reach,
        zmax=1.0 + reach,
        xgap=2,
        ygap=2,
        colorbar={"title": {"text": "speed-up"}, "thickness": 12},
    )
    drawn = figure(
        [heat],
        title,
        x=x,
        y=y,
        note="times as fast as TensorFlow's own setting, medians of pairs; empty: not measured",
        device=device,
        height=230 + 44 * len(ys),
        xaxis_type="category",
        yaxis_type="category",
    )
    if best:
        i, j = xs.index(best[0]), ys.index(best[1])
        drawn.add_shape(type="rect", x0=i - 0.49, x1=i + 0.49, y0=j - 0.49, y1=j + 0.49, line={"color": "#1c2733", "width": 3})
    return drawn
