"""`ctrlab embedding analyze`: the report of a checkpoint's tables, summed up; TensorFlow is not needed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from ctrlab.embedding import analysis
from ctrlab.embedding.formats.resharding import read_any
from ctrlab.errors import choose
from ctrlab.paths import require_place, write_atomically
from ctrlab.profiling import page

THRESHOLDS = (1, 2, 3, 5, 10, 20, 50, 100)
COVERAGES = (0.9, 0.95, 0.99, 0.999)
FOREVER = np.iinfo(np.int64).max


def run(checkpoint: list[Path], out: Path | None, feature: str | None, html: Path | None, json_path: Path | None) -> None:
    """Reads, prints, writes.

    Raises:
        BadData: no whole save. UnknownName: no such feature. CtrlabError: a file can't be written, or plotly is missing.
    """
    for path in filter(None, (out, json_path)):
        require_place(path)
    if html:
        page.check(html)
    save, states = read_any(checkpoint)
    if feature:
        states = {choose("feature", feature, states): states[feature]}
    report = analysis.report(states, dict.fromkeys(states))  # a checkpoint does not say where its rows lay
    filters = {name: len(state.filter) for name, state in states.items()}
    found = summary(report, save.step, filters)
    console = Console()
    for table in (table_of_features(found), table_of_admission(found), table_of_ages(found), table_of_coverages(found)):
        console.print(table)
    if out:
        analysis.write(report, out)
        console.print(f"Every key: {out}, {len(report):,} rows", soft_wrap=True, highlight=False)
    if json_path:
        write_atomically(json_path, json.dumps(found, indent=1) + "\n")
    if html:
        write_atomically(html, page_of(report, found))
        console.print(f"Plots: {html}", soft_wrap=True)


def summary(report: pa.Table, step: int, filters: dict[str, int]) -> dict:
    """All that is printed, as plain values.

    Args:
        step: of the checkpoint: ages count back from it.
        filters: {feature: bytes of its Bloom filter}.
    """
    features = []
    for name, filter_bytes in filters.items():
        part = analysis.of_feature(report, name)
        now, age = analysis.eviction(part, [FOREVER], step), step - part["last_step"].to_numpy()
        rows = int(now.rows[0])
        figures = {"rows": rows, "counted": len(part) - rows, "bytes": int(now.bytes[0]) + filter_bytes}
        figures |= {"traffic": int(part["frequency"].to_numpy().sum()), "covered": float(now.traffic[0])}
        features.append({"feature": name, **figures, "median_age": float(np.median(age)) if len(age) else None})
    what_if, ages = analysis.admission(report, THRESHOLDS), analysis.ages(report, step)
    columns = {"threshold": THRESHOLDS, "rows": what_if.rows, "bytes": what_if.bytes, "traffic": what_if.traffic}
    edges = ages.edges.astype(np.int64)
    bins = {"from": edges[:-1], "to": edges[1:] - 1, "ids": ages.ids, "traffic": ages.traffic}
    found = {"step": step, "features": features, "admission": _records(columns), "ages": _records(bins)}
    return found | {"coverages": [_of_coverage(report, share, step) for share in COVERAGES if any(ages.traffic)]}


def _of_coverage(report: pa.Table, share: float, step: int) -> dict:
    """The settings that keep a share of the traffic."""
    threshold, steps = analysis.suggest_threshold(report, share), analysis.suggest_steps_to_live(report, share, step)
    left = {"admission": analysis.admission(report, [threshold]), "steps_to_live": analysis.eviction(report, [steps], step)}
    rows = {f"rows_by_{name}": int(what_if.rows[0]) for name, what_if in left.items()}
    return {"share": share, "admission": threshold, "steps_to_live": steps} | rows


def _records(columns: dict) -> list[dict]:
    return [dict(zip(columns, row)) for row in zip(*(np.asarray(c).tolist() for c in columns.values()))]


def table_of_features(found: dict) -> Table:
    """What each table holds, the largest first, and their sums."""
    headings = ("table", "rows", "ids without a row", "MB", "traffic that rows cover", "median age (steps)")
    features = sorted(found["features"], key=lambda f: -f["bytes"])
    table = _table(f"Embedding variables at step {found['step']:,}", headings)
    for f in features:
        age = "" if f["median_age"] is None else f"{f['median_age']:,.0f}"
        table.add_row(f["feature"], f"{f['rows']:,}", f"{f['counted']:,}", _mb(f["bytes"]), f"{f['covered']:.1%}", age)
    rows, counted, size = (sum(f[name] for f in features) for name in ("rows", "counted", "bytes"))
    table.add_section()
    table.add_row("together", f"{rows:,}", f"{counted:,}", _mb(size), "", "")
    return table


def table_of_admission(found: dict) -> Table:
    """What admission by other thresholds would have left."""
    table = _table("If ids had got a row when they came for the n-th time", ("n", "rows", "MB", "traffic that rows cover"))
    table.caption = "of the ids that are here: what was evicted, or counted in a Bloom filter alone, is not"
    for left in found["admission"]:
        table.add_row(f"{left['threshold']:,}", f"{left['rows']:,}", _mb(left["bytes"]), f"{left['traffic']:.1%}")
    return table


def table_of_ages(found: dict) -> Table:
    """How many steps ago ids last came."""
    table = _table("Steps since ids last came", ("steps", "ids", "share of the ids", "share of the traffic"))
    ids, traffic = (max(1, sum(age[name] for age in found["ages"])) for name in ("ids", "traffic"))
    for age in found["ages"]:
        low, high = age["from"], age["to"]
        span = f"{low:,}" if high == low else f"{low:,} to {high:,}"
        table.add_row(span, f"{age['ids']:,}", f"{age['ids'] / ids:.1%}", f"{age['traffic'] / traffic:.1%}")
    return table


def table_of_coverages(found: dict) -> Table:
    """The greatest threshold of admission, and the least steps to live, that keep a share of the traffic."""
    table = _table("To keep a share of the traffic", ("share", "admit at", "rows then", "or evict after (steps)", "rows then"))
    table.caption = "--admission and --evict-after; of the traffic that rows cover now, in the case of eviction"
    for each in found["coverages"]:
        row = [each[name] for name in ("admission", "rows_by_admission", "steps_to_live", "rows_by_steps_to_live")]
        table.add_row(f"{each['share']:.1%}", *(f"{number:,}" for number in row))
    return table


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=title)
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="right" if k else "left", no_wrap=not k)
    return table


def _mb(size: int) -> str:
    return f"{size / 1e6:,.2f}"


def page_of(report: pa.Table, found: dict) -> str:
    """The distribution of frequencies, what admission would have left, and the ages, as a page that needs nothing else."""
    from ctrlab.profiling import charts

    often, ages = analysis.frequencies(report), analysis.ages(report, found["step"])
    most = int(report["frequency"].to_numpy().max(initial=1))
    settings = np.unique(np.geomspace(1, max(2, most), 40).round().astype(np.int64))
    left, whole = analysis.admission(report, settings), analysis.admission(report, [0])
    shares = {"rows": left.rows / max(1, whole.rows[0]), "bytes": left.bytes / max(1, whole.bytes[0]), "traffic": left.traffic}
    figures = [
        charts.bins(often.edges, {"ids": often.ids, "traffic": often.traffic}, title="How often ids came", x="times"),
        charts.what_if(settings, shares, title="Admit an id when it has come so often", x="threshold (times)"),
        charts.bins(ages.edges, {"ids": ages.ids, "traffic": ages.traffic}, title="How long ago ids last came", x="steps"),
    ]
    return page.of_figures(figures, f"Embedding variables at step {found['step']:,}")
