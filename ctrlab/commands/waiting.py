"""`ctrlab bench waiting`: what lookups wait while the storage below them is at work."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ctrlab.embedding.benches.waiting import bench_waiting
from ctrlab.paths import require_place, write_atomically
from ctrlab.profiling import page
from ctrlab.profiling.machine import machine
from ctrlab.profiling.waiting import Waits, Watch


def run(profile: str | None, json_path: Path | None, html: Path | None) -> None:
    """Watches, prints a table for lookups and one for the store's reads, writes the JSON and the plot.

    Raises:
        UnknownName: no such profile. CtrlabError: the disk refuses, or a file can't be written.
    """
    if json_path:
        require_place(json_path)
    if html:
        page.check(html)
    found, console = bench_waiting(profile), Console()
    for each in found:
        console.print(table_of(each))
        facts = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in each.facts.items())
        console.print(f"A call of no key takes {1e3 * each.own:.2g} ms by itself; {facts}.", highlight=False)
        if each.facts.get("files_compacted") == 0:
            console.print("No file was compacted, so this says nothing of compaction: take a larger profile.", style="yellow")
    if json_path:
        write_atomically(json_path, json.dumps([each.to_json() for each in found]) + "\n")
    if html:
        write_atomically(html, page_of(found))


def table_of(found: Waits) -> Table:
    """Each thing that went on below the quiet time it is paired with, over all rounds; the longest waits are of the worst round.

    "beyond": the longest call less what the control thread waited at most in the same phase.
    """
    asked = [f"{phase} {most:g}, {1e3 * beyond:g} ms" for phase, (most, beyond) in found.asked.items() if phase in found.phases]
    table = Table(title=found.title, caption=f"{machine().line}\nasked, at most: {'; '.join(asked)}")
    table.add_column("meanwhile", no_wrap=True)
    for heading in ("p50, ms", "p99", "max", "control", "p99 / quiet", "beyond"):
        table.add_column(heading, justify="right", no_wrap=True)
    for phase in found.phases:
        pairs = found.pairs(phase)
        table.add_row("(quiet)", *_times([pair.quiet for pair in pairs]), style="dim")
        busy = _times([pair.busy for pair in pairs])
        table.add_row(phase, *busy, str(found.ratio(phase)), f"{1e3 * found.beyond_control(phase):.3g}")
    return table


def _times(watches: list[Watch]) -> list[str]:
    """Medians over rounds of the percentiles, and the longest waits of all."""
    middle = [statistics.median(one.percentile(q) for one in watches) for q in (50, 99)]
    longest = [max(one.longest for one in watches), max(one.longest_control for one in watches)]
    return [f"{1e3 * seconds:.3g}" for seconds in middle + longest]


def page_of(found: list[Waits]) -> str:
    """The first round's waits against time, as a page that needs nothing else."""
    from ctrlab.profiling import charts

    figures = []
    for each in found:
        pairs = each.rounds[0]
        shown = {"quiet": replace(next(iter(pairs.values())).quiet, work=0.0)} | {
            phase: pair.busy for phase, pair in pairs.items()
        }
        figures.append(charts.waiting(shown, title=each.title, device=machine().line))
    return page.of_figures(figures, "What lookups wait for")
