"""The results of the benches of storage, as self-contained pages of plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ctrlab.profiling.machine import machine
from ctrlab.profiling.page import of_figures
from ctrlab.profiling.waiting import Waits
from studies.store.bench import BATCH, StoreBench


def of_stores(found: Sequence[StoreBench]) -> str:
    """A page with the durations of the stores' reads, one plot per row size."""
    from ctrlab.profiling import charts  # plotly, which a server does without

    figures = []
    for each in found:
        samples = {f"{name}, {phase}": each.reads(name, phase) for name in each.stores for phase in ("read", "compacting")}
        title = f"{BATCH:,} random reads of {each.row_bytes} bytes, with and without compaction"
        figures.append(charts.latency(samples, title=title, device=machine().line))
    return of_figures(figures, "Stores of rows on a disk")


def of_waits(found: Sequence[Waits]) -> str:
    """A page with the first round's waits over time."""
    from ctrlab.profiling import charts

    figures = []
    for each in found:
        pairs = each.rounds[0]
        quiet = replace(next(iter(pairs.values())).quiet, work=0.0)
        shown = {"quiet": quiet} | {phase: pair.busy for phase, pair in pairs.items()}
        figures.append(charts.waiting(shown, title=each.title, device=machine().line))
    return of_figures(figures, "What lookups wait for")
