"""Charts of the lesson on when more workers lose: the best number of workers, and the simulator beside real steps."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
from ctrlab.lessons.topics.more_workers.fitting import Checked
from ctrlab.lessons.topics.more_workers.study import MOST, WITHIN

from ctrlab.lessons.outcome import plain
from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import figure

FEW_TO_MANY = [[0.0, "#f7f7f7"], [1.0, "#2b6ca8"]]


def optimum(counts: Sequence[Sequence[int]], across: Sequence[float], up: Sequence[float], *, x: str, y: str, title: str):
    """A heat map of the best number of workers, one row of `counts` for each value of `up`; the number stands in its cell.

    Cells with the largest tried number are marked, because more workers may be faster still.
    """
    text = [[f"{'≥ ' if count >= MOST else ''}{count}" for count in row] for row in counts]
    heat = go.Heatmap(
        x=[plain(value) for value in across],
        y=[plain(value) for value in up],
        z=[list(map(int, row)) for row in counts],
        text=text,
        texttemplate="%{text}",
        hovertemplate=f"{x} %{{x}}, {y} %{{y}}: %{{text}} workers<extra></extra>",
        colorscale=FEW_TO_MANY,
        xgap=2,
        ygap=2,
        colorbar={"title": {"text": "workers"}, "thickness": 12},
    )
    drawn = figure([heat], title, x=x, y=y, note=f"up to {MOST} workers", device="simulated", height=200 + 44 * len(up))
    return drawn.update_layout(xaxis_type="category", yaxis_type="category")


def beside_real_steps(found: Checked, machine: str) -> go.Figure:
    """Simulated over measured seconds: on the diagonal they are equal; between the dotted lines they differ by a fifth at most.

    Args:
        machine: the machine on which the steps were recorded.
    """
    kinds = {"fitted": found.used, "held out": found.held_out}
    colour, traces = colours.of_names(kinds), []
    for name, settings in kinds.items():
        traces.append(
            go.Scatter(
                name=name,
                mode="markers",
                x=[1e3 * each.measured for each in settings],
                y=[1e3 * each.simulated for each in settings],
                text=[f"{each.workers} workers, {each.batch:,} examples, {_link(each.megabits)}" for each in settings],
                hovertemplate="%{text}: measured %{x:.0f}, simulated %{y:.0f}<extra></extra>",
                marker={"size": 10, "color": colour[name], "symbol": "circle" if name == "fitted" else "diamond"},
            )
        )
    longest = 1e3 * max(max(each.measured, each.simulated) for of in kinds.values() for each in of)
    for factor, dash in ((1.0, "solid"), (1 - WITHIN, "dot"), (1 + WITHIN, "dot")):
        line = {"color": colours.BOUND, "width": 1, "dash": dash}
        traces.append(go.Scatter(x=[0, longest], y=[0, factor * longest], mode="lines", line=line, showlegend=False))
    return figure(
        traces,
        "Real workers over slow links",
        x="measured (ms per step)",
        y="simulated (ms per step)",
        note=_errors(found),
        device=f"recorded on {machine}",
        height=440,
        margin_t=118,
    )


def _errors(found: Checked) -> str:
    """The errors of the simulator and of the null model on held-out steps."""
    of = {"simulator": found.errors, "null model": found.null_errors}
    said = (f"{name} {100 * e.bias:+.0f} % on average, at worst {100 * e.worst:.0f} %" for name, e in of.items())
    return f"held out: {'; '.join(said)}"


def _link(megabits: float | None) -> str:
    return "no slow links" if megabits is None else f"{megabits:g} Mbit/s"
