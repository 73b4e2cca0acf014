"""The command line of the study, `ctrlab bench store`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ctrlab.cli.app import JsonOption, ProfileOption, console, import_tensorflow, require_files, write_json
from ctrlab.cli.bench.scaled import scaled
from ctrlab.paths import write_atomically

if TYPE_CHECKING:
    from studies.store.bench import StoreBench


def command(
    row_bytes: Annotated[
        list[int] | None, typer.Argument(help="Bytes a row, multiples of 8; 64 and 256 if none is named.")
    ] = None,
    json_path: JsonOption = None,
    profile: ProfileOption = None,
    html: Annotated[Path | None, typer.Option(help="Write the plot of latencies to this file.", dir_okay=False)] = None,
) -> None:
    """Time the store of rows on a disk beside LevelDB and RocksDB, where their libraries are installed.

    - `ctrlab bench store`
    - `ctrlab bench store 64 --json store.json --html store.html`
    """
    require_files(json_path, html)
    import_tensorflow()
    from studies import pages
    from studies.store.bench import PEERS, bench_store

    found = [bench_store(size, profile) for size in row_bytes or [64, 256]]
    out = console()
    for each in found:
        for name in each.missing:
            out.print(f"{name} is left out: install {PEERS[name][1]} to have it measured.", highlight=False, soft_wrap=True)
        out.print(table_of(each))
        out.print(f"Write amplification of ctrlab: {each.write_amplification():.2f}", highlight=False)
    write_json(json_path, [each.to_json() for each in found])
    if html:
        write_atomically(html, pages.of_stores(found))


def table_of(found: StoreBench) -> Table:
    """Each store in each phase; ratios are of ours to the other's."""
    import numpy as np

    from ctrlab.profiling.machine import machine
    from studies.store.bench import PHASES

    table = Table(title=f"Random reads and updates, {found.keys:,} rows of {found.row_bytes} bytes", caption=machine().line)
    for heading in ("store", "phase"):
        table.add_column(heading, no_wrap=True)
    for heading in ("1000 rows/s", "ours is times as fast", "ms a batch, p50", "p99", "p99 compacting / p99", "% of bound"):
        table.add_column(heading, justify="right")
    for name in found.stores:
        for phase in PHASES:
            p50, p99 = 1e3 * np.percentile(found.reads(name, phase), [50, 99])
            table.add_row(
                name,
                phase,
                f"{found.rows_per_second(name, phase).median / 1e3:.3g}",
                "" if name == "ctrlab" else str(found.ratio(name, phase)),
                f"{p50:.3g}",
                f"{p99:.3g}",
                str(found.stall(name)) if phase == "compacting" else "",
                scaled(found.percent_of_bound(name), 1) if phase == "read" else "",
            )
    return table
