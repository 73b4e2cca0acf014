"""The command line of the study, `ctrlab bench peers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ctrlab.cli.app import JsonOption, ProfileOption, console, import_tensorflow, require_files, write_json

if TYPE_CHECKING:
    from ctrlab.profiling.report import Report
    from studies.peers.bench import AgainstPeer


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Cases; all if none is named.")] = None,
    json_path: JsonOption = None,
    profile: ProfileOption = None,
) -> None:
    """Time our training steps beside other libraries': PyTorch with FBGEMM and torchrec, DeepCTR, oneDNN.

    Each library gets an environment of its own below the cache folder, the first time; the same sizes and batches go to all.

    - `ctrlab bench peers`
    - `ctrlab bench peers lookup dlrm --json peers.json`
    """
    require_files(json_path)
    import_tensorflow()
    from ctrlab.profiling.roofline import ceilings
    from studies.peers.bench import bench_peers

    rows = bench_peers(names or None, profile, ceilings())
    report(rows).show(console())
    write_json(json_path, [row.to_json() for row in rows])


def report(rows: Sequence[AgainstPeer]) -> Report:
    """One line per case and peer; a peer that could not run has only its name."""
    from ctrlab.profiling.report import Part, Report

    headings = ("case", "peer", "its ms", "our ms", "our % of bound", "times as fast", "we are", "largest difference")
    lines = [[row.case, row.peer, *_figures(row)] for row in rows]
    shapes = {row.case: row.shape for row in rows}
    notes = [f"{case}: {shape}" for case, shape in shapes.items()]
    notes += [f"{row.case}, {row.peer}: {row.note}" for row in rows if row.note]
    return Report([Part("Our step beside other libraries', both with all cores", headings, lines, words=2, kinds=1)], notes)


def _figures(row: AgainstPeer) -> list[str]:
    if row.comparison is None:
        return ["-"] * 4 + ["missing", "-"]
    from studies.peers.environments import OURS

    ours, its = row.comparison[OURS.name], row.comparison[row.comparison.baseline]
    bound = "-" if ours.percent_of_bound is None else f"{ours.percent_of_bound:.2g}"
    difference = "other numbers" if row.difference is None else f"{row.difference:.0e}"
    return [f"{1e3 * its.median:.3g}", f"{1e3 * ours.median:.3g}", bound, str(row.ratio), row.standing, difference]
