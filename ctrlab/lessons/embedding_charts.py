"""Charts of `ctrlab bench table-sizes`: AUC over the size of the tables, and the recorded runs that they are drawn from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from ctrlab.errors import choose
from ctrlab.lessons import places
from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import figure, log_ticks

PUBLISHED = (1 / 20, -0.003, "reported: 20x smaller, about -0.3 % AUC")


def recorded(name: str) -> dict:
    """The recorded study `data/measurements/embedding_<name>.json`: its machine, its settings, its runs.

    Raises:
        UnknownName: there is no such record.
    """
    paths = {
        p.stem.removeprefix("embedding_"): p for p in (places.notebooks().parent / "data/measurements").glob("embedding_*.json")
    }
    return json.loads(paths[choose("recorded study", name, paths)].read_text())


def against_perfect(
    runs: Iterable[Mapping], perfect: str = "perfect", **wanted
) -> dict[str, list[tuple[float, float, list[float]]]]:
    """{way: [(compression, size, [AUC less that of `perfect` with the same seed])]} for the runs with the wanted settings.

    Args:
        perfect: the way with one row per id: "perfect" or "variable".
    """
    chosen = [run for run in runs if all(np.isclose(run[key], value) for key, value in wanted.items())]
    best = {run["seed"]: run["auc"] for run in chosen if run["way"] == perfect}
    found: dict[str, dict[float, list]] = {}
    for run in chosen:
        if run["way"] != perfect and run["seed"] in best:
            found.setdefault(run["way"], {}).setdefault(run["compression"], []).append(
                (run["size"], run["auc"] - best[run["seed"]])
            )
    return {
        way: [(compression, pairs[0][0], [gap for _, gap in pairs]) for compression, pairs in sorted(sizes.items())]
        for way, sizes in found.items()
    }


def size_curve(record: Mapping, *, title: str, ways: Sequence[str] = (), published: bool = False, **wanted) -> go.Figure:
    """A chart of the AUC minus that of one row per id, over the tables' size: the mean over seeds, and a small mark per seed.

    Args:
        record: a result of `recorded`.
        ways: the ways to show; all, if none are named.
        published: mark the published point.
        wanted: the runs to show, e.g. rare=0.4, rows=100_000.
    """
    found = against_perfect(record["runs"], **wanted)
    shown = {way: points for way, points in found.items() if way in ways or not ways}
    colour, traces = colours.of_names(shown), []
    for way, points in shown.items():
        sizes, gaps = [size for _, size, _ in points], [gap for *_, gap in points]
        line = {"color": colour[way], "width": 2, "dash": "dash" if "concat" in way else "dot" if "multiply" in way else "solid"}
        traces.append(go.Scatter(x=sizes, y=[np.mean(gap) for gap in gaps], name=way, mode="lines+markers", line=line))
        each = [(size, gap) for size, several in zip(sizes, gaps) for gap in several]
        marks = {"color": colour[way], "size": 4, "opacity": 0.45}
        traces.append(go.Scatter(x=[s for s, _ in each], y=[g for _, g in each], mode="markers", marker=marks, showlegend=False))
    if published:
        x, y, text = PUBLISHED
        star = {"symbol": "star", "size": 15, "color": colours.BOUND}
        traces.append(go.Scatter(x=[x], y=[y], mode="markers", name=text, marker=star))
    seeds = len({run["seed"] for run in record["runs"]})
    chart = figure(
        traces,
        title,
        x="size of the tables, a row for each id = 1 (logarithmic)",
        y="AUC less that of a row for each id",
        note=f"lines are means over up to {seeds} seeds, small marks single seeds",
        device=f"recorded on {record['machine']}",
        height=520,
        margin_t=118 if len(shown) < 6 else 170,  # room for the names
    )
    every = [size for points in shown.values() for _, size, _ in points]
    ticks = log_ticks(min(every) / 1.2, max(every) * 1.2)
    chart.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    return chart.add_hline(0, line={"color": colours.BOUND, "width": 1})
