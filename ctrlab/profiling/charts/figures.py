"""The static charts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from ctrlab.errors import CtrlabError, choose
from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import decimate, figure, log_ticks, seconds, unit_of
from ctrlab.profiling.timing import Comparison
from ctrlab.profiling.traces import OpTable, sum_of

By = Literal["part", "type"]


def breakdown(table: OpTable, *, by: By = "part", most: int = 12, title: str = "") -> go.Figure:
    """The time of one step: one bar per part of the model, or per op type, the longest on top."""
    rows = _grouped(table, by).rows
    names, shares = [_name(r, by) for r in rows[:most]], [r.share for r in rows[:most]]
    details = [f"{seconds(r.seconds)} · {r.calls:,.0f} call{'s' * (round(r.calls) != 1)}" for r in rows[:most]]
    if rest := rows[most:]:
        names.append(f"{len(rest)} more")
        shares.append(sum(r.share for r in rest))
        details.append(seconds(sum(r.seconds for r in rest)))
    bar = go.Bar(
        x=[100 * s for s in shares],
        y=names,
        orientation="h",
        marker_color=[colours.of_part(n) if by == "part" else colours.PALETTE[0] for n in names],
        text=[f"{s:.1%}   {d}" for s, d in zip(shares, details)],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: %{text}<extra></extra>",
    )
    return figure(
        [bar],
        title or f"Where the time goes{': ' * bool(table.title)}{table.title}",
        x="share of self time (%)",
        y="",
        note=f"self time of the ops of one step, by {_WORDS[by]}; a step took {seconds(table.wall)} under the profiler<br>"
        + sum_of([table]),
        device=table.device,
        height=190 + 30 * len(names),
        yaxis_autorange="reversed",
        xaxis_range=[0, 132 * max(shares)],
    )


def breakdowns(tables: Sequence[OpTable], *, by: By = "part", most: int = 9, title: str = "Where the time goes") -> go.Figure:
    """Several breakdowns side by side: one stacked bar per table, as shares of its own self time.

    Raises:
        CtrlabError: there are no tables.
    """
    if not tables:
        raise CtrlabError("A chart of breakdowns needs at least one profile; none was given.")
    shares = [{_name(r, by): r.share for r in _grouped(t, by).rows} for t in tables]
    total = {name: sum(s.get(name, 0) for s in shares) for one in shares for name in one}
    most = most if by == "part" else min(most, len(colours.PALETTE))
    shown = sorted(total, key=lambda name: (name == "other", -total[name]))[:most]
    colour = {n: colours.of_part(n) for n in shown} if by == "part" else colours.of_names(shown)
    titles = [t.title or f"profile {i + 1}" for i, t in enumerate(tables)]
    stacks = [(name, [s.get(name, 0) for s in shares], colour[name]) for name in shown]
    rest = [1 - sum(s.get(name, 0) for name in shown) for s in shares]
    if max(rest) > 0.001:
        stacks.append(("the rest", rest, colours.FAINT))
    bars = [
        go.Bar(
            x=[100 * v for v in values],
            y=titles,
            name=name,
            orientation="h",
            marker={"color": color, "line": {"color": "white", "width": 1}},
            text=[f"{v:.0%}" if v >= 0.05 else "" for v in values],
            textposition="inside",
            textangle=0,
            insidetextanchor="middle",
            hovertemplate="%{y}, " + name + ": %{x:.1f} %<extra></extra>",
        )
        for name, values, color in stacks
    ]
    return figure(
        bars,
        title,
        x="share of self time (%)",
        y="",
        note=f"self time of the ops of one step, by {_WORDS[by]}<br>{sum_of(tables)}",
        device=tables[0].device,
        height=254 + 44 * len(tables),
        margin_t=128,  # the legend may need two lines
        barmode="stack",
        yaxis_autorange="reversed",
        xaxis_range=[0, 100],
    )


def waterfall(
    totals: Mapping[str, float], *, title: str = "What each rung takes off", floor: float | None = None, device: str = ""
) -> go.Figure:
    """A waterfall from the baseline's time down the ladder.

    Args:
        totals: seconds with all rungs up to and including this one, in the ladder's order, the baseline first.
        floor: the least time that the work can take, in seconds; drawn as a line.
    """
    if not totals:
        raise CtrlabError("A waterfall needs at least the baseline's seconds; none were given.")
    names, values = list(totals), list(totals.values())
    unit, size = unit_of(values)
    colour = colours.of_names(names)
    steps = [(names[0], 0.0, values[0], colour[names[0]], seconds(values[0]))]
    for name, before, after in zip(names[1:], values, values[1:]):
        steps.append((name, min(before, after), abs(before - after), colour[name], _change(before, after)))
    steps.append(("in the end", 0.0, values[-1], colours.DARK, f"{seconds(values[-1])}<br><b>{values[0] / values[-1]:.3g}x</b>"))
    bars = go.Bar(
        x=[s[0] for s in steps],
        y=[s[2] / size for s in steps],
        base=[s[1] / size for s in steps],
        marker_color=[s[3] for s in steps],
        text=[s[4] for s in steps],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{x}: %{text}<extra></extra>",
        showlegend=False,
    )
    levels = [v / size for v in values]
    joints = [
        go.Scatter(
            x=[a[0], b[0]],
            y=[level, level],
            mode="lines",
            line={"color": "#9aa3ad", "width": 1, "dash": "dot"},
            hoverinfo="skip",
            showlegend=False,
        )
        for (a, b), level in zip(itertools.pairwise(steps), levels)
    ]
    chart = figure(
        [*joints, bars],
        title,
        x="",
        y=f"time ({unit})",
        note="each rung on top of those before it; lower is better",
        device=device,
        yaxis_range=[0, 1.18 * max(levels)],
    )
    under = [step[0] for step in steps]
    chart.update_xaxes(tickvals=under, ticktext=[name.replace(" ", "<br>") for name in under])  # keeps labels level
    return chart if floor is None else _floor_line(chart, floor / size, "y", f"floor {seconds(floor)}")


def ladder(comparison: Comparison, *, title: str = "The ladder", bound: float | None = None) -> go.Figure:
    """Each variant's time with its interval, its ratio to the baseline, and the bound.

    Args:
        bound: seconds that the work takes at this machine's ceilings; default: the bound of the measurements.
    """
    entries = list(comparison.measurements.values())
    bound = bound or next((m.bound for m in entries if m.bound), None)
    unit, size = unit_of([m.median for m in entries])
    colour = colours.of_names(m.name for m in entries)
    names, times = [m.name for m in entries], [m.median / size for m in entries]
    low = (bound or min(m.low for m in entries)) / size
    stems = [
        go.Scatter(x=[low, t], y=[name, name], mode="lines", line={"color": colours.FAINT, "width": 10}, hoverinfo="skip")
        for name, t in zip(names, times)
    ]
    dots = go.Scatter(
        x=times,
        y=names,
        mode="markers",
        marker={"color": [colour[name] for name in names], "size": 17},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [(m.high - m.median) / size for m in entries],
            "arrayminus": [(m.median - m.low) / size for m in entries],
            "color": colours.DARK,
            "thickness": 1.4,
        },
        hovertemplate="%{y}: %{x:.3g} " + unit + "<extra></extra>",
    )
    chart = figure(
        [*stems, dots],
        title,
        x=f"time a call ({unit}, logarithmic), lower is better",
        y="",
        note=f"median of {len(entries[0].samples)} paired blocks with its interval · ratios are against {comparison.baseline}",
        device=_where(entries[0]),
        height=220 + 46 * len(entries),
        yaxis_autorange="reversed",
        showlegend=False,
    )
    high = max(m.high for m in entries) / size
    decades = np.log10(high / low)
    span = [np.log10(low) - 0.04 * decades - 0.02, np.log10(high) + 0.5 * decades + 0.05]
    ticks = log_ticks(10 ** span[0], 10 ** span[1])
    chart.update_xaxes(type="log", range=span, tickvals=ticks, ticktext=[f"{t:g}" for t in ticks])
    for m in entries:
        where = {"x": np.log10(m.high / size), "y": m.name}  # plotly places annotations on a logarithmic axis by the exponent
        chart.add_annotation(**where, text=_against(comparison, m, bound), xanchor="left", xshift=14, showarrow=False)
    return chart if bound is None else _floor_line(chart, bound / size, "x", f"bound {seconds(bound)}")


MOST_LABELLED = 3
"""Up to this many curves have labelled marks. With more, labels would overlap, so they appear under the pointer."""


def latency(samples: Mapping[str, Sequence[float]], *, title: str = "Latency", device: str = "") -> go.Figure:
    """The fraction of all requests that took at most a given time, with p50, p95 and p99 marked.

    A curve ends at the share of the requests that were answered; a percentile beyond it is never reached.

    Args:
        samples: seconds per request, by variant; infinite for one that was not answered.
    Raises:
        CtrlabError: a variant has no sample, or no request of any was answered.
    """
    if not samples or not all(len(values) for values in samples.values()):
        raise CtrlabError(
            f"A latency chart needs at least one sample per variant; received { ({k: len(v) for k, v in samples.items()}) }."
        )
    colour = colours.of_names(samples)
    answered = {name: np.sort([each for each in values if each < np.inf]) for name, values in samples.items()}
    everything = np.concatenate(list(answered.values()))
    if not len(everything):
        raise CtrlabError(f"A latency chart needs at least one answered request; received none of {', '.join(samples)}.")
    unit, size = unit_of([float(np.median(v)) for v in answered.values() if len(v)])
    traces = []
    for name, values in answered.items():
        shares = 100 * np.arange(len(values) + 1) / len(samples[name])
        x, y, said = _marks(values, len(samples[name]))
        # Where nothing was answered, the curve is one point that is not drawn: so its name is in the legend.
        curve = decimate(shares, np.concatenate([values[:1], values]) / size) if len(values) else ([None], [None])
        traces.append(
            go.Scatter(x=curve[1], y=curve[0], mode="lines", name=name, line={"color": colour[name], "width": 2.5, "shape": "hv"})
        )
        traces.append(
            go.Scatter(
                x=np.array(x) / size,
                y=y,
                mode="markers+text" if len(samples) <= MOST_LABELLED else "markers",
                text=said,
                # Below the curve, and the last one inside the chart.
                textposition=["bottom left" if each.endswith("never") else "bottom right" for each in said],
                textfont={"size": 11},
                cliponaxis=False,
                marker={"color": colour[name], "size": 8},
                showlegend=False,
                hovertemplate="%{text}<extra>" + name + "</extra>",
            )
        )
    chart = figure(
        traces,
        title,
        x=f"latency ({unit}, logarithmic)",
        y="requests no slower (%)",
        note="further to the left is better; marked are the median, the 95th and the 99th percentile",
        device=device,
        yaxis_range=[0, 105],
    )
    low, high = everything.min() / size, everything.max() / size
    ticks = log_ticks(low, high)
    span = [np.log10(low), np.log10(high) + 0.06]
    return chart.update_xaxes(type="log", range=span, tickvals=ticks, ticktext=[f"{t:g}" for t in ticks])


def _marks(ordered: np.ndarray, count: int) -> tuple[list[float], list[float], list[str]]:
    """The marks of the percentiles of `count` requests: seconds, percents and labels. Percentiles that are never reached are
    marked at the curve's end.
    """
    ranks = {percent: math.ceil(percent / 100 * count) for percent in (50, 95, 99)}
    found = [(ordered[rank - 1], p, f"p{p} {seconds(ordered[rank - 1])}") for p, rank in ranks.items() if rank <= len(ordered)]
    never = ", ".join(f"p{percent}" for percent, rank in ranks.items() if rank > len(ordered))
    if never and len(ordered):
        found.append((ordered[-1], 100 * len(ordered) / count, f"{never} never"))
    return [each[0] for each in found], [each[1] for each in found], [each[2] for each in found]


def loss_curves(
    curves: Mapping[str, Sequence[float]], *, title: str = "Training loss", y: str = "loss", note: str = "", device: str = ""
) -> go.Figure:
    """One line per run over its steps. Equal runs overlap, so later ones are dashed."""
    colour = colours.of_names(curves)
    traces = []
    for i, (name, values) in enumerate(curves.items()):
        steps, shown = decimate(np.arange(1, len(values) + 1), values)
        line = {"color": colour[name], "width": 3.5 if i == 0 else 2, "dash": ("solid", "dash", "dot", "dashdot")[i % 4]}
        traces.append(go.Scatter(x=steps, y=shown, mode="lines", name=name, line=line))
    return figure(traces, title, x="step", y=y, note=note, device=device)


_WORDS = {"part": "part of the model", "type": "op type"}


def _grouped(table: OpTable, by: By) -> OpTable:
    return table.by_part() if choose("grouping", by, _WORDS) == "part" else table.by_type()


def _name(row, by: By) -> str:
    return row.part if by == "part" else row.op_type


def _change(before: float, after: float) -> str:
    sign = "−" if after <= before else "+"
    return f"{sign}{seconds(abs(before - after))}<br>{before / after:.3g}x"


def _where(measurement) -> str:
    tensorflow = measurement.versions.get("tensorflow")
    line = f"{measurement.device} · {measurement.threads} threads · profile {measurement.profile}"
    return f"{line} · TensorFlow {tensorflow}" if tensorflow else line


def _against(comparison: Comparison, measurement, bound: float | None) -> str:
    text = seconds(measurement.median)
    if measurement.name != comparison.baseline:
        ratio = comparison.ratio(measurement.name)
        text += f" · <b>{ratio.median:.3g}x</b> [{ratio.low:.3g}, {ratio.high:.3g}]"
    return text if bound is None else f"{text} · {100 * bound / measurement.median:.2g} % of bound"


def _floor_line(chart: go.Figure, value: float, axis: str, text: str) -> go.Figure:
    """A dashed line at `value`, with its text outside the plot: above it (x), or to its right (y)."""
    line = {"color": colours.BOUND, "width": 2, "dash": "dash"}
    said = {"text": text, "font": {"size": 12}}
    chart.update_layout(margin_r=40 if axis == "x" else 110)
    if axis == "y":
        return chart.add_hline(value, line=line, annotation=said, annotation_position="right")
    # The x axis is logarithmic: plotly places lines by value there, but annotations by exponent.
    return chart.add_vline(value, line=line, annotation=said | {"x": np.log10(value)}, annotation_position="top")
