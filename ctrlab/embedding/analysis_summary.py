"""Sums up the report of `ctrlab.embedding.analysis`: as plain values, and as a page of plots."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ctrlab.embedding import analysis
from ctrlab.profiling.page import of_figures

THRESHOLDS = (1, 2, 3, 5, 10, 20, 50, 100)
COVERAGES = (0.9, 0.95, 0.99, 0.999)
FOREVER = np.iinfo(np.int64).max


def summary(report: pa.Table, step: int, filters: dict[str, int]) -> dict:
    """The values that `ctrlab embedding analyze` prints, as plain Python values.

    Args:
        step: step of the checkpoint, from which ages count back.
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


def page(report: pa.Table, found: dict) -> str:
    """A self-contained HTML page with the distribution of frequencies, the rows that admission would have left, and the ages."""
    from ctrlab.profiling import charts  # plotly, which a server does without

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
    return of_figures(figures, f"Embedding variables at step {found['step']:,}")
