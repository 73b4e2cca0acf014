"""The report's figures as plain plotly JSON: {"data": [...], "layout": {...}}. plotly itself is not imported here."""

from __future__ import annotations

import itertools

from ctrlab.race import contest, score
from ctrlab.race.result import RaceResult

# Okabe and Ito's colours, which colour-blind people can tell apart; the baseline is grey.
COLOURS = ("#7f7f7f", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
FLOOR, BAR, CEILING = "#000000", "#d55e00", "#009e73"
MOST_POINTS = 1_000
COLUMNS = 3


def colour(result: RaceResult, optimizations: str) -> str:
    return COLOURS[result.settings.sets.index(optimizations) % len(COLOURS)]


def totals(result: RaceResult) -> dict:
    """Each set's score: one horizontal bar, the baseline on top."""
    scored = {name: score.total_seconds(result, name) for name in result.settings.sets}
    names = [name for name, seconds in scored.items() if seconds is not None]
    ratios = {name: score.total_speedup(result, name) for name in names}
    bar = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": [scored[n] for n in names],
        "text": [f"{scored[n]:,.1f} s, {ratios[n].median:.2f}x" for n in names],
        "marker": {"color": [colour(result, n) for n in names]},
    }
    return _figure(
        [bar],
        "Score: training seconds at the contest's steps, lower is better",
        xaxis=_axis("seconds"),
        yaxis={"autorange": "reversed"},
    )


def models(result: RaceResult) -> dict:
    """Each model's seconds as a share of its baseline's, with the floor of its arithmetic on this machine."""
    entries = [m for m in result.models if not m.variant(contest.BASELINE).error]
    base = {m.model: score.contest_seconds(m, m.variant(contest.BASELINE)) for m in entries}
    bars = []
    for name in result.settings.sets:
        done = [m for m in entries if not m.variant(name).error]
        seconds = [score.contest_seconds(m, m.variant(name)) for m in done]
        bars.append(
            {
                "type": "bar",
                "name": name,
                "x": [m.model for m in done],
                "y": [100 * s / base[m.model] for m, s in zip(done, seconds)],
                "text": [f"{s:,.1f} s" for s in seconds],
                "marker": {"color": colour(result, name)},
            }
        )
    floors = [score.floor_seconds(m) for m in entries]
    marks = {
        "type": "scatter",
        "mode": "markers",
        "name": "floor",
        "x": [m.model for m in entries],
        "y": [100 * f / base[m.model] for m, f in zip(entries, floors)],
        "text": [f"{f:,.1f} s" for f in floors],
        "marker": {"symbol": "line-ew-open", "size": 60, "color": FLOOR, "line": {"width": 3}},
    }
    return _figure([*bars, marks], "Each model against its baseline and its floor", yaxis=_axis("% of the baseline's seconds"))


def waterfall(result: RaceResult) -> dict:
    """From the baseline's score to the last set's, one step a set in the order they were asked for."""
    scored = {name: score.total_seconds(result, name) for name in result.settings.sets}
    names = [name for name, seconds in scored.items() if seconds is not None]
    steps = [scored[b] - scored[a] for a, b in itertools.pairwise(names)]
    fall = {
        "type": "waterfall",
        "x": [*names, "in the end"] if names else [],
        "measure": ["absolute", *["relative"] * len(steps), "total"] if names else [],
        "y": [scored[names[0]], *steps, 0] if names else [],
        "decreasing": {"marker": {"color": CEILING}},
        "increasing": {"marker": {"color": BAR}},
        "totals": {"marker": {"color": COLOURS[1]}},
    }
    return _figure([fall], "What each set takes off the score", yaxis=_axis("seconds"))


def losses(result: RaceResult) -> dict:
    """The loss of each step, a panel a model; where nothing changed but speed, the curves lie on each other."""
    traces, titles = [], []
    for i, entry in enumerate(result.models):
        axis = str(i + 1) if i else ""
        titles.append(_panel_title(entry.model, axis))
        for name in result.settings.sets:
            curve = entry.variant(name).losses
            every = max(1, len(curve) // MOST_POINTS)
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": name,
                    "legendgroup": name,
                    "showlegend": i == 0,
                    "x": list(range(1, len(curve) + 1, every)),
                    "y": list(curve[::every]),
                    "xaxis": f"x{axis}",
                    "yaxis": f"y{axis}",
                    "line": {"color": colour(result, name), "width": 1 if name == contest.BASELINE else 2},
                }
            )
    rows = max(1, -(-len(result.models) // COLUMNS))
    grid = {"rows": rows, "columns": COLUMNS, "pattern": "independent"}
    return _figure(traces, "Loss by step", grid=grid, annotations=titles, height=280 * rows)


def aucs(result: RaceResult) -> dict:
    """Each set's AUC on held-out rows, with the baseline's seeds, the least that counts, and the best that is possible."""
    tasks = [(m, label) for m in result.models for label in m.seed_auc]
    names = [f"{m.model}<br>{label}" for m, label in tasks]
    seeds = [(name, auc) for name, (m, label) in zip(names, tasks) for auc in m.seed_auc[label]]
    traces = [_dots("baseline's seeds", *zip(*seeds), "circle-open", COLOURS[0], 7)] if seeds else []
    for name in result.settings.sets:
        done = [(x, m.variant(name).auc[label]) for x, (m, label) in zip(names, tasks) if not m.variant(name).error]
        if done:
            traces.append(_dots(name, *zip(*done), "diamond", colour(result, name), 11))
    least = [score.thresholds(m)[label] for m, label in tasks]
    traces.append(_dots("least that counts", names, least, "line-ew-open", BAR, 40))
    best = [(x, m.ceiling[label]) for x, (m, label) in zip(names, tasks) if m.ceiling]
    if best:
        traces.append(_dots("ceiling of the data", *zip(*best), "line-ew-open", CEILING, 40))
    return _figure(traces, "AUC on held-out rows", yaxis=_axis("AUC", rangemode="normal"))


def _dots(name: str, x, y, symbol: str, colour: str, size: int) -> dict:
    marker = {"symbol": symbol, "color": colour, "size": size, "line": {"width": 2}}
    return {"type": "scatter", "mode": "markers", "name": name, "x": list(x), "y": list(y), "marker": marker}


def _panel_title(text: str, axis: str) -> dict:
    place = {"x": 0.5, "y": 1, "xref": f"x{axis} domain", "yref": f"y{axis} domain"}
    return {"text": text, "showarrow": False, "xanchor": "center", "yanchor": "bottom"} | place


def _axis(title: str, **more) -> dict:
    return {"title": {"text": title}, "rangemode": "tozero"} | more


def _figure(data: list, title: str, **layout) -> dict:
    shared = {"title": {"text": title}, "template": {}, "margin": {"t": 60, "r": 20}, "hovermode": "closest"}
    return {"data": data, "layout": shared | layout}
