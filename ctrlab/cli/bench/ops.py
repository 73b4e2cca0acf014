"""`ctrlab bench ops`: the ops' implementations against each other and against this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from ctrlab.cli.app import JsonOption, ProfileOption, console, import_tensorflow, require_files, write_json


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Benches; all if none is named.")] = None,
    json_path: JsonOption = None,
    profile: ProfileOption = None,
) -> None:
    """Time every op's implementations against each other, in pairs, and against this machine's limits.

    The gap of an implementation is its distance from the least time that the work needs on this machine.

    - `ctrlab bench ops`
    - `ctrlab bench ops indicator --json ops.json`
    """
    require_files(json_path)
    import_tensorflow()
    from ctrlab.ops.benches import bench_ops
    from ctrlab.profiling.markdown import number
    from ctrlab.profiling.report import Part, Report

    rows = bench_ops(names or None, profile)
    lines = []
    for row in rows:
        measured = row.measurement
        closed = "\n".join(f"{percent:.0f}" for percent in row.closed.values())
        ratios = "\n".join(f"{name}: {ratio}" for name, ratio in row.speedup.items())
        lines.append([row.bench, row.variant, number(1e3 * measured.median), f"{measured.percent_of_bound:.2g}", ratios, closed])
    headings = ("bench", "implementation", "milliseconds", "% of bound", "times as fast as", "% of its gap closed")
    shapes = {row.bench: row.shape for row in rows}
    notes = [f"{bench}: {shape}" for bench, shape in shapes.items()]
    Report([Part("Ops, forward and backward", headings, lines, words=2, kinds=1)], notes).show(console())
    write_json(json_path, [row.to_json() for row in rows])
