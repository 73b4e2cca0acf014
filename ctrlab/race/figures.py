"""The figures that only the race's report needs; the lab's charts provide the waterfall and the loss curves."""

from __future__ import annotations

from ctrlab.profiling import charts, colours
from ctrlab.profiling.charts.style import figure, seconds
from ctrlab.race import contest, score
from ctrlab.race.result import RaceResult

LEAST, CEILING = "#d55e00", "#009e73"


def totals(result: RaceResult):
    """Each set's score as a horizontal bar, the baseline on top; None if no set has a valid score."""
    scored = _scored(result)
    ratios = [score.total_speedup(result, name) for name in scored]
    colour = colours.of_names(result.settings.sets)
    bar = {
        "type": "bar",
        "orientation": "h",
        "y": list(scored),
        "x": list(scored.values()),
        "text": [f"{seconds(s)} · {r.median:.3g}x" for s, r in zip(scored.values(), ratios)],
        "marker": {"color": [colour[name] for name in scored]},
    }
    note = "training seconds of all models at the contest's numbers of steps; less is better"
    return _figure(result, [bar], "Score", note, x="time (s)", height=230 + 50 * len(scored), yaxis_autorange="reversed")


def models(result: RaceResult):
    """Each model's seconds as a percentage of its baseline's, with the floor of its work on this machine."""
    entries = [m for m in result.models if not m.variant(contest.BASELINE).error]
    base = {m.model: score.contest_seconds(m, m.variant(contest.BASELINE)) for m in entries}
    colour = colours.of_names(result.settings.sets)
    traces = []
    for name in result.settings.sets:
        done = [m for m in entries if not m.variant(name).error]
        taken = [score.contest_seconds(m, m.variant(name)) for m in done]
        traces.append(
            {
                "type": "bar",
                "name": name,
                "x": [m.model for m in done],
                "y": [100 * s / base[m.model] for m, s in zip(done, taken)],
                "text": [seconds(s) for s in taken],
                "marker": {"color": colour[name]},
            }
        )
    floors = [score.floor_seconds(m) for m in entries]
    shares = [100 * f / base[m.model] for m, f in zip(entries, floors)]
    traces.append(_dots("floor", [m.model for m in entries], shares, "line-ew-open", colours.BOUND, 60))
    traces[-1]["text"] = [seconds(f) for f in floors]
    note = "floor: the least time its arithmetic and memory traffic can take on this machine"
    return _figure(result, traces, "Each model against its baseline", note, y="share of the baseline's time (%)")


def waterfall(result: RaceResult):
    """From the baseline's score to that of the last set, one step per set in the given order."""
    floor = sum(score.floor_seconds(m) for m in result.models)
    return charts.waterfall(_scored(result), title="What each set takes off the score", floor=floor, device=_device(result))


def losses(result: RaceResult) -> list:
    """The loss of each step, one figure per model; the curves overlap if only the speed changed."""
    note = "all sets on the same batches"
    return [
        charts.loss_curves(
            {v.optimizations: v.losses for v in m.variants if v.losses}, title=f"Loss of {m.model}", note=note, device=m.device
        )
        for m in result.models
    ]


def aucs(result: RaceResult):
    """Each set's AUC on held-out rows, with the baseline's AUC for other seeds, the threshold and the ceiling."""
    tasks = [(m, label) for m in result.models for label in m.seed_auc]
    names = [f"{m.model}<br>{label}" for m, label in tasks]
    colour = colours.of_names(result.settings.sets)
    seeds = [(name, auc) for name, (m, label) in zip(names, tasks) for auc in m.seed_auc[label]]
    best = [(name, m.ceiling[label]) for name, (m, label) in zip(names, tasks) if m.ceiling]
    least = [(name, score.thresholds(m)[label]) for name, (m, label) in zip(names, tasks)]
    traces = [_dots("seeds of the baseline", *_columns(seeds), "circle-open", colours.GREY, 7)]
    for name in result.settings.sets:
        done = [(x, m.variant(name).auc[label]) for x, (m, label) in zip(names, tasks) if not m.variant(name).error]
        traces.append(_dots(name, *_columns(done), "diamond", colour[name], 11))
    traces.append(_dots("least that counts", *_columns(least), "line-ew-open", LEAST, 40))
    traces.append(_dots("ceiling of the data", *_columns(best), "line-ew-open", CEILING, 40))
    return _figure(result, traces, "AUC", "on rows held out from training", y="AUC")


def _scored(result: RaceResult) -> dict[str, float]:
    """The seconds of each set with a valid score."""
    scored = {name: score.total_seconds(result, name) for name in result.settings.sets}
    return {name: total for name, total in scored.items() if total is not None}


def _columns(pairs: list) -> tuple[list, list]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _dots(name: str, x: list, y: list, symbol: str, colour: str, size: int) -> dict:
    marker = {"symbol": symbol, "color": colour, "size": size, "line": {"width": 2}}
    return {"type": "scatter", "mode": "markers", "name": name, "x": x, "y": y, "marker": marker}


def _device(result: RaceResult) -> str:
    return result.models[0].device


def _figure(result: RaceResult, traces: list, title: str, note: str, *, x: str = "", y: str = "", **layout):
    return figure([t for t in traces if t["x"]], title, x=x, y=y, note=note, device=_device(result), **layout)
