"""The roofline: the limits of this machine, and how close a measured computation comes to them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from ctrlab.errors import CtrlabError
from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import figure
from ctrlab.profiling.timing import Measurement
from ctrlab.profiling.work import Ceilings, Work, bound

LEFT, RIGHT = 2.0**-6, 2.0**12  # flops per byte


def roofline(
    ceilings: Ceilings,
    points: Mapping[str, Measurement | tuple[Work, float]] | None = None,
    *,
    title: str = "The roofline of this machine",
) -> go.Figure:
    """The ceilings over arithmetic intensity, on logarithmic axes, with measured computations below them.

    Args:
        points: {name: a Measurement with its work, or (work, seconds per call)}.
    Raises:
        CtrlabError: a point has no flops.
    """
    chart = figure(
        [*_roofs(ceilings), *_marks(points or {}, ceilings)],
        title,
        x="arithmetic intensity (flops per byte of memory traffic)",
        y="GFLOP/s",
        note="a computation can't lie above the line; the dotted drop is what is left to gain",
        device=ceilings.device,
        height=500,
    )
    ticks = [2.0**i for i in range(-6, 13, 2)]
    names = [f"1/{round(1 / t)}" if t < 1 else f"{t:,.0f}" for t in ticks]
    chart.update_xaxes(type="log", tickvals=ticks, ticktext=names, range=[np.log10(LEFT), np.log10(RIGHT)])
    inside = {
        "orientation": "v",
        "x": 0.99,
        "y": 0.03,
        "xanchor": "right",
        "yanchor": "bottom",
        "bgcolor": "rgba(255,255,255,0.85)",
    }
    chart.update_layout(legend=inside)
    chart.update_yaxes(type="log", dtick=1, exponentformat="none", tickformat=",~g")
    return chart


def _roofs(ceilings: Ceilings) -> list[go.Scatter]:
    random = ceilings.random_rows * 64
    roofs = [
        (f"float32 matmul, {ceilings.sgemm / 1e9:,.0f} GFLOP/s", ceilings.stream, ceilings.sgemm, colours.DARK, "solid"),
        (f"bfloat16 matmul, {ceilings.bf16 / 1e9:,.0f} GFLOP/s", ceilings.stream, ceilings.bf16, colours.PALETTE[3], "dash"),
        (
            f"one thread's stream, {ceilings.stream_one_thread / 1e9:,.0f} GB/s",
            ceilings.stream_one_thread,
            ceilings.sgemm,
            colours.PALETTE[4],
            "dash",
        ),
        (f"random 64-byte rows, {random / 1e9:,.1f} GB/s", random, ceilings.sgemm, colours.PALETTE[5], "dot"),
    ]
    traces = []
    for name, bandwidth, peak, color, dash in roofs:
        x = np.array([LEFT, peak / bandwidth, RIGHT])
        y = np.minimum(x * bandwidth, peak) / 1e9
        width = 3 if dash == "solid" else 2
        label = f"{name}; stream, {bandwidth / 1e9:,.0f} GB/s" if dash == "solid" else name
        traces.append(
            go.Scatter(x=x, y=y, mode="lines", name=label, line={"color": color, "dash": dash, "width": width}, hoverinfo="name")
        )
    return traces


def _marks(points: Mapping[str, Measurement | tuple[Work, float]], ceilings: Ceilings) -> list[go.Scatter]:
    colour = colours.of_names(points)
    traces = []
    for name, point in points.items():
        work, seconds = (point.work, point.median) if isinstance(point, Measurement) else point
        if work is None or not work.flops:
            raise CtrlabError(
                f"A roofline places a computation by its flops; {name!r} has none. Give `work` when it is measured."
            )
        reached, possible = work.flops / seconds / 1e9, work.flops / bound(work, ceilings) / 1e9
        percent = 100 * reached / possible
        intensity = min(work.intensity, RIGHT)
        drop = {"color": colour[name], "width": 1.5, "dash": "dot"}
        traces.append(
            go.Scatter(
                x=[intensity, intensity],
                y=[reached, possible],
                mode="lines+markers+text",
                line=drop,
                marker={"color": colour[name], "size": [12, 8], "symbol": ["circle", "line-ew-open"]},
                text=[f"<b>{name}</b> {percent:.2g} %", ""],
                textposition="middle right",
                showlegend=False,
                hovertemplate=f"{name}: {reached:,.3g} of {possible:,.3g} GFLOP/s, {percent:.2g} % of bound<extra></extra>",
            )
        )
    return traces
