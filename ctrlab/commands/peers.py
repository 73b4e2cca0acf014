"""`ctrlab bench peers`: other libraries beside ours, in one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ctrlab.paths import require_place, write_atomically
from ctrlab.peers.bench import Row, bench_peers
from ctrlab.peers.environments import OURS
from ctrlab.profiling.machine import machine
from ctrlab.profiling.roofline import ceilings


def run(names: list[str] | None, profile: str | None, json_path: Path | None) -> None:
    """Measures, prints a table, writes the JSON.

    Raises:
        UnknownName, CtrlabError: bad options, or our side can't run.
    """
    if json_path:
        require_place(json_path)  # before minutes of measuring
    rows = bench_peers(names or None, profile, ceilings())
    console = Console()
    console.print(table_of(rows))
    for case, shape in {row.case: row.shape for row in rows}.items():
        console.print(f"{case}: {shape}", highlight=False, soft_wrap=True)
    for row in rows:
        if row.note:
            console.print(f"{row.case}, {row.peer}: {row.note}", highlight=False, soft_wrap=True)
    if json_path:
        write_atomically(json_path, json.dumps([row.to_json() for row in rows], indent=1) + "\n")


def table_of(rows: Sequence[Row]) -> Table:
    """One line a case and peer; a peer that could not run has only its name."""
    table = Table(title="Our step beside other libraries', both with all cores", caption=machine().line)
    for heading in ("case", "peer"):
        table.add_column(heading)
    for heading in ("its ms", "our ms", "our % of bound", "times as fast", "we are", "largest difference"):
        table.add_column(heading, justify="right")
    for i, row in enumerate(rows):
        if i and rows[i - 1].case != row.case:
            table.add_section()
        table.add_row(row.case, row.peer, *_figures(row))
    return table


def _figures(row: Row) -> list[str]:
    if row.comparison is None:
        return ["-"] * 4 + ["missing", "-"]
    ours, its = row.comparison[OURS.name], row.comparison[row.comparison.baseline]
    bound = "-" if ours.percent_of_bound is None else f"{ours.percent_of_bound:.2g}"
    difference = "other numbers" if row.difference is None else f"{row.difference:.0e}"
    return [f"{1e3 * its.median:.3g}", f"{1e3 * ours.median:.3g}", bound, str(row.ratio), row.standing, difference]
