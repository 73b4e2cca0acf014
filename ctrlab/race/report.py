"""A race as one self-contained HTML page: it needs no network and no server, and contains plotly.js once."""

from __future__ import annotations

from pathlib import Path

from ctrlab.paths import write_atomically
from ctrlab.profiling.page import of_figures
from ctrlab.profiling.timing import Interval
from ctrlab.race import contest, live, score
from ctrlab.race.result import RaceResult

HEADINGS = (
    "model",
    "optimizations",
    "seconds",
    "seconds a step",
    "speed-up",
    "% of bound",
    "gap closed",
    "AUC",
    "GAUC",
    "calibration",
    "counts",
)


def write(result: RaceResult, path: Path) -> None:
    """Writes the page, whole or not at all."""
    write_atomically(path, page(result))


def page(result: RaceResult) -> str:
    """The whole page."""
    settings = result.settings
    return of_figures(
        _figures(result) if result.models else [],
        f"Race at profile {settings.profile}, {settings.data} data",
        Path(__file__).with_name("report.html"),
        result=result,
        machines=dict.fromkeys(m.device for m in result.models) or [settings.machine],
        versions=", ".join(f"{name} {version}" for name, version in settings.versions.items()),
        failures=score.failures(result),
        missing=[m for m in result.asked if m not in {e.model for e in result.models}],
        interval_note=score.interval_note(result),
        headings=HEADINGS,
        rows=_rows(result),
    )


def _figures(result: RaceResult) -> list:
    from ctrlab.race import figures

    scored = any(score.total_seconds(result, name) is not None for name in result.settings.sets)
    totals = [figures.totals(result), figures.waterfall(result)] if scored else []
    return [*totals, figures.models(result), figures.aucs(result), *figures.losses(result)]


def _rows(result: RaceResult) -> list[tuple[str, ...]]:
    """The table's cells: every variant, then the totals."""
    rows = [_row(entry, variant) for entry in result.models for variant in entry.variants]
    for name in result.settings.sets:
        total = score.total_seconds(result, name)
        ratio = "" if total is None else _ratio(name, score.total_speedup(result, name))
        rows.append(("total", name, "failed" if total is None else f"{total:,.1f}", "", ratio, *[""] * 6))
    return rows


def _row(entry, variant) -> tuple[str, ...]:
    if variant.error:
        return (entry.model, variant.optimizations, "", "", "", "", "", "", "", "", variant.error)
    seconds = score.contest_seconds(entry, variant)
    return (
        entry.model,
        variant.optimizations,
        f"{seconds:,.1f}",
        f"{seconds / contest.STEPS[entry.model]:.4f}",
        _ratio(variant.optimizations, score.speedup(entry, variant.optimizations)),
        f"{score.percent_of_floor(entry, variant):.1f}",
        live.gap_text(score.gap_closed(entry, variant)),
        *(live.lines(each).replace("\n", " ") for each in (variant.auc, variant.gauc, variant.calibration)),
        "yes" if score.verdict(entry, variant).passed else "no",
    )


def _ratio(optimizations: str, ratio: Interval | None) -> str:
    if ratio is None or optimizations == contest.BASELINE:
        return ""
    return f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
