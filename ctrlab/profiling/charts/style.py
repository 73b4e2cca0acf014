"""The common style of all charts: fonts, grid, device line, numbers with units; and the decimation of long curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio

from ctrlab.profiling.colours import DARK
from ctrlab.profiling.machine import machine

MOST_POINTS = 1_000

# The default renderer would put plotly.js, 4.8 MB, into every notebook; JupyterLab can draw the bare figure itself.
pio.renderers.default = "plotly_mimetype"

_AXIS = {
    "showline": True,
    "linecolor": "#b5bcc4",
    "gridcolor": "#e8ebee",
    "zeroline": False,
    "ticks": "outside",
    "tickcolor": "#b5bcc4",
    "ticklen": 4,
    "separatethousands": True,
    "exponentformat": "none",
    "title": {"standoff": 8, "font": {"size": 13}},
    "automargin": True,
}
_TEMPLATE = {
    "layout": {
        "font": {"family": "Inter, Helvetica Neue, Arial, sans-serif", "size": 13, "color": DARK},
        "title": {"x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yanchor": "top", "pad": {"t": 18}, "font": {"size": 17}},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "hoverlabel": {"bgcolor": "white", "bordercolor": "#b5bcc4", "font": {"color": DARK}},
        "legend": {"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "traceorder": "normal"},
        "bargap": 0.3,
    }
}


def figure(
    traces: Sequence, title: str, *, x: str, y: str, note: str = "", device: str = "", height: int = 400, **layout
) -> go.Figure:
    """A figure in the lab's style.

    Args:
        x, y: axis labels with the unit, such as "time (ms)".
        note: a line under the title that says how to read the chart.
        device: the machine's line; default: this machine's.
    """
    result = go.Figure(data=list(traces), layout=shell(title, x=x, y=y, note=note, device=device, height=height))
    return result.update_layout(**layout)


def shell(title: str, *, x: str, y: str, note: str = "", device: str = "", height: int = 400) -> dict:
    """The layout: title, axes, and the machine's line at the lower right."""
    line = {
        "text": device or machine().line,
        "xref": "paper",
        "yref": "paper",
        "x": 1,
        "y": 0,
        "xanchor": "right",
        "yanchor": "top",
        "yshift": -70,
        "showarrow": False,
        "font": {"size": 11, "color": "#6b7683"},
    }
    heading = f"<b>{title}</b>"
    if note:  # not plotly's `subtitle`: a widget drawn before it is on the page puts that over the title
        heading += f'<br><span style="font-size:13px;color:#55606c">{note}</span>'
    return {
        "template": _TEMPLATE,
        "title": {"text": heading},
        "xaxis": {"title": {"text": x}},
        "yaxis": {"title": {"text": y}},
        "annotations": [line],
        "height": height,
        "autosize": True,
        "margin": {"l": 70, "r": 40, "t": 104, "b": 98},
    }


def logarithmic(label: str) -> str:
    """The label of a logarithmic axis.

    >>> logarithmic("time (ms)"), logarithmic("rows")
    ('time (ms, logarithmic)', 'rows (logarithmic)')
    """
    return f"{label[:-1]}, logarithmic)" if label.endswith(")") else f"{label} (logarithmic)"


def seconds(value: float) -> str:
    """A time with a suitable unit.

    >>> seconds(0.00123), seconds(12.0), seconds(2063.25)
    ('1.23 ms', '12 s', '2,063 s')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def unit_of(values: Sequence[float]) -> tuple[str, float]:
    """A suitable unit for a whole axis: its name, and its size in seconds."""
    most = max((abs(v) for v in values), default=1.0)
    return next(((unit, size) for unit, size in (("s", 1.0), ("ms", 1e-3)) if most >= size), ("µs", 1e-6))


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: 1, 2, 5, 10, ... in the range; if these are too few, also numbers with two digits."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [tick for power in powers for tick in (10.0**power, 2 * 10.0**power, 5 * 10.0**power) if low <= tick <= high]
    if len(ticks) > 1:
        return ticks
    finer = [step * 10.0**power / 10 for power in powers for step in range(10, 100) if low <= step * 10.0**power / 10 <= high]
    return finer[:: 1 + len(finer) // 8]


def decimate(x: Sequence[float], y: Sequence[float], most: int = MOST_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Reduces a curve to at most `most` points: the minimum and maximum of each run of points, in order, and both ends.

    So peaks stay visible; an average or every n-th point would lose them. A NaN counts like any other point.
    """
    x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)  # float32 takes half the JSON of float64
    if len(y) <= most:
        return x, y
    runs = np.array_split(np.arange(1, len(y) - 1), (most - 2) // 2)
    extremes = [run[[np.argmin(y[run]), np.argmax(y[run])]] for run in runs]
    kept = np.unique(np.concatenate([[0], *extremes, [len(y) - 1]]))
    return x[kept], y[kept]
