"""A race as one HTML page that needs nothing else: no network, no server. plotly.js is in it once."""

from __future__ import annotations

import html
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.paths import require_place, write_atomically
from ctrlab.profiling.timing import Interval
from ctrlab.race import contest, live, score
from ctrlab.race.result import RaceResult

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .25rem .8rem; border-bottom: 1px solid #ddd; text-align: right }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2), td:last-child { text-align: left } .bad { color: #b00020 }
small { color: #666 }
"""
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


def check(path: Path) -> None:
    """Says before a race whether its report could be written after it.

    Raises:
        CtrlabError: plotly is not installed, or `path` can't be written.
    """
    try:
        import ctrlab.race.figures  # noqa: F401
    except ModuleNotFoundError as missing:
        raise CtrlabError(f"A report needs {missing.name}: pip install {missing.name}, or leave --html out.") from None
    require_place(path)


def write(result: RaceResult, path: Path) -> None:
    """Writes the page, whole or not at all."""
    write_atomically(path, page(result))


def page(result: RaceResult) -> str:
    """The whole page."""
    settings = result.settings
    title = f"Race at profile {settings.profile}, {settings.data} data"
    versions = ", ".join(f"{name} {version}" for name, version in settings.versions.items())
    machines = dict.fromkeys(m.device for m in result.models) or [settings.machine]
    failed = "".join(f'<p class="bad">{html.escape(reason)}</p>' for reason in score.failures(result))
    missing = [m for m in result.asked if m not in {e.model for e in result.models}]
    if missing:
        failed += f'<p class="bad">Not finished: {html.escape(", ".join(missing))} are missing.</p>'
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>
</head><body>
<h1>{html.escape(title)}</h1>
<p>{html.escape("; ".join(machines))}<br><small>{html.escape(versions)}; started {html.escape(result.started)}</small></p>
{failed}
<p>Seconds are training seconds, reading included, of the profile's share of the contest's steps, weighted back to the contest's
counts. Variants trained in turns, block by block, on the same batches; a ratio is the median over paired
blocks, {score.interval_note(result)}. The floor is
the least time that a model's arithmetic and memory traffic can take at this machine's measured ceilings; the gap closed is how
much of the way from the best of stock TensorFlow (the set "stock") to that floor a set has gone.</p>
{_table(result)}
{_figures(result) if result.models else ""}
</body></html>
"""


def _figures(result: RaceResult) -> str:
    """Every figure; the first carries plotly.js for all."""
    from ctrlab.race import figures

    scored = any(score.total_seconds(result, name) is not None for name in result.settings.sets)
    totals = [figures.totals(result), figures.waterfall(result)] if scored else []
    drawn = [*totals, figures.models(result), figures.aucs(result), *figures.losses(result)]
    return "\n".join(f.to_html(full_html=False, include_plotlyjs=i == 0) for i, f in enumerate(drawn))


def _table(result: RaceResult) -> str:
    rows = [_row(entry, variant) for entry in result.models for variant in entry.variants]
    for name in result.settings.sets:
        total = score.total_seconds(result, name)
        ratio = "" if total is None else _ratio(name, score.total_speedup(result, name))
        rows.append(("total", name, "failed" if total is None else f"{total:,.1f}", "", ratio, *[""] * 6))
    head = "".join(f"<th>{html.escape(h)}</th>" for h in HEADINGS)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


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
