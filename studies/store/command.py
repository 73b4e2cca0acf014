"""The command line of the study, `ctrlab bench store`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrlab.cli.app import JsonOption, ProfileOption, console, import_tensorflow, require_files, write_json
from ctrlab.paths import write_atomically

if TYPE_CHECKING:
    from ctrlab.profiling.report import Report
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
    from studies.store.bench import bench_store

    found = [bench_store(size, profile) for size in row_bytes or [64, 256]]
    for each in found:
        report(each).show(console())
    write_json(json_path, [each.to_json() for each in found])
    if html:
        write_atomically(html, pages.of_stores(found))


def report(found: StoreBench) -> Report:
    """Each store in each phase; ratios are of ours to the other's."""
    import numpy as np

    from ctrlab.profiling.markdown import interval, number
    from ctrlab.profiling.report import Part, Report
    from studies.store.bench import PEERS, PHASES

    headings = (
        "store",
        "phase",
        "1000 rows/s",
        "ours is times as fast",
        "ms a batch, p50",
        "p99",
        "p99 compacting / p99",
        "% of bound",
    )
    lines = []
    for name in found.stores:
        for phase in PHASES:
            p50, p99 = 1e3 * np.percentile(found.reads(name, phase), [50, 99])
            faster = "" if name == "ctrlab" else str(found.ratio(name, phase))
            stall = str(found.stall(name)) if phase == "compacting" else ""
            bound = interval(found.percent_of_bound(name)) if phase == "read" else ""
            per_second = number(found.rows_per_second(name, phase).median / 1e3)
            lines.append([name, phase, per_second, faster, number(p50), number(p99), stall, bound])
    said = f"Random reads and updates, {found.keys:,} rows of {found.row_bytes} bytes"
    notes = [f"{name} is left out: install {PEERS[name][1]} to have it measured." for name in found.missing]
    notes.append(f"Write amplification of ctrlab: {found.write_amplification():.2f}")
    return Report([Part(said, headings, lines, words=2, kinds=1)], notes)
