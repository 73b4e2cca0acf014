"""The command line of the study, `ctrlab bench waiting`."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrlab.cli.app import JsonOption, ProfileOption, console, import_tensorflow, require_files, write_json
from ctrlab.paths import write_atomically

if TYPE_CHECKING:
    from ctrlab.profiling.report import Report
    from ctrlab.profiling.waiting import Waits, Watch


def command(
    json_path: JsonOption = None,
    profile: ProfileOption = None,
    html: Annotated[Path | None, typer.Option(help="Write the plot of waits against time to this file.", dir_okay=False)] = None,
) -> None:
    """Time what lookups wait while an embedding variable's storage is opened, updated, evicted from and compacted.

    - `ctrlab bench waiting`
    - `ctrlab bench waiting --profile full --json waiting.json --html waiting.html`
    """
    require_files(json_path, html)
    import_tensorflow()
    from studies import pages
    from studies.waiting import bench as waiting

    found = waiting.bench_waiting(profile)
    for each in found:
        report(each).show(console())
    write_json(json_path, [each.to_json() for each in found], indent=None)  # a line a number would be many
    if html:
        write_atomically(html, pages.of_waits(found))


def report(found: Waits) -> Report:
    """The table of all phases, each below the idle phase with which it is paired, over all rounds; the longest waits come from
    the worst round. "beyond" is the longest call minus the longest delay of the control thread in the same phase.
    """
    from ctrlab.profiling.machine import machine
    from ctrlab.profiling.report import Part, Report

    lines = []
    for phase in found.phases:
        pairs = found.pairs(phase)
        lines.append(["(quiet)", *_times([pair.quiet for pair in pairs]), "", ""])
        busy = _times([pair.busy for pair in pairs])
        lines.append([phase, *busy, str(found.ratio(phase)), f"{1e3 * found.beyond_control(phase):.3g}"])
    asked = [f"{phase} {most:g}, {1e3 * beyond:g} ms" for phase, (most, beyond) in found.asked.items() if phase in found.phases]
    caption = f"{machine().line}\nasked, at most: {'; '.join(asked)}"
    part = Part(found.title, ("meanwhile", "p50, ms", "p99", "max", "control", "p99 / quiet", "beyond"), lines, caption=caption)
    facts = ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in found.facts.items())
    notes = [f"A call of no key takes {1e3 * found.own:.2g} ms by itself; {facts}."]
    if found.facts.get("files_compacted") == 0:
        notes.append("No file was compacted, so this says nothing of compaction: take a larger profile.")
    return Report([part], notes)


def _times(watches: list[Watch]) -> list[str]:
    """Medians over rounds of the percentiles, and the longest waits of all."""
    middle = [statistics.median(one.percentile(q) for one in watches) for q in (50, 99)]
    longest = [max(one.longest for one in watches), max(one.longest_control for one in watches)]
    return [f"{1e3 * seconds:.3g}" for seconds in middle + longest]
