"""Latency over time: the duration of each call during some background work, one row of the chart per kind of work."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from ctrlab.errors import CtrlabError
from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import decimate, figure, log_ticks, unit_of
from ctrlab.profiling.waiting import Watch

ROW, GAP, AROUND = 150, 46, 240  # pixels
LEAST = 1e-6  # seconds: plotted for a control thread that woke in time


def waiting(phases: Mapping[str, Watch], *, title: str = "Waiting", device: str = "") -> go.Figure:
    """One row per phase: its calls, and a control thread that only reads the clock. The time of the phase's work is shaded.

    Raises:
        CtrlabError: there are no phases.
    """
    if not phases:
        raise CtrlabError("A chart of waits needs at least one phase; none was given.")
    both = [np.maximum(samples[:, 1], LEAST) for one in phases.values() for samples in (one.calls, one.control)]
    unit, size = unit_of([float(max(map(np.max, both)))])
    unit, size = ("ms", 1e-3) if unit == "s" else (unit, size)
    low, high = np.log10(min(map(np.min, both)) / size), np.log10(1.3 * max(map(np.max, both)) / size)
    ticks = [tick for tick in log_ticks(10**low, 10**high) if np.log10(tick) % 1 == 0] or log_ticks(10**low, 10**high)
    n = len(phases)
    height = n * (ROW + GAP) - GAP
    note = "how long each call took, and how much too late the control thread woke, logarithmic; shaded: the work"
    chart = figure([], title, x="", y="", note=note, device=device, height=AROUND + height)
    for i, (name, one) in enumerate(phases.items()):
        axis, top = "" if i == 0 else str(i + 1), 1 - i * (ROW + GAP) / height
        for what, samples, colour in (("control", one.control, colours.GREY), ("calls", one.calls, colours.PALETTE[0])):
            x, y = decimate(samples[:, 0], np.maximum(samples[:, 1], LEAST) / size)
            marker = {"color": colour, "size": 4}
            legend = {"name": what, "legendgroup": what, "showlegend": i == 0}
            chart.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=marker, xaxis=f"x{axis}", yaxis=f"y{axis}", **legend))
        if one.work:
            shade = {"fillcolor": colours.PALETTE[1], "opacity": 0.15, "line_width": 0, "layer": "below"}
            shape = {"type": "rect", "x0": 0, "x1": one.work, "y0": 0, "y1": 1}
            chart.add_shape(**shape, xref=f"x{axis}", yref=f"y{axis} domain", **shade)
        across = {"anchor": f"y{axis}", "rangemode": "tozero", "title": {"text": "time (s)" if i == n - 1 else ""}}
        upright = {"domain": [max(0.0, top - ROW / height), top], "anchor": f"x{axis}", "type": "log", "range": [low, high]}
        upright |= {"tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks], "title": {"text": f"{name}<br>({unit})"}}
        chart.update_layout({f"xaxis{axis}": across, f"yaxis{axis}": upright})
    return chart
