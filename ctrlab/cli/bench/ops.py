"""`ctrlab bench ops`: the ops' implementations against each other and against this machine."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

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
    from ctrlab.profiling.machine import machine

    rows = bench_ops(names or None, profile)
    table = Table(title="Ops, forward and backward", caption=machine().line)
    for heading in ("bench", "implementation"):
        table.add_column(heading, no_wrap=True)
    for heading in ("milliseconds", "% of bound"):
        table.add_column(heading, justify="right")
    table.add_column("times as fast as")
    table.add_column("% of its gap closed", justify="right")
    for i, row in enumerate(rows):
        if i and rows[i - 1].bench != row.bench:
            table.add_section()
        measured = row.measurement
        closed = "\n".join(f"{percent:.0f}" for percent in row.closed.values())
        ratios = "\n".join(f"{name}: {ratio}" for name, ratio in row.speedup.items())
        table.add_row(row.bench, row.variant, f"{1e3 * measured.median:.3g}", f"{measured.percent_of_bound:.2g}", ratios, closed)
    out = console()
    out.print(table)
    for bench, shape in {row.bench: row.shape for row in rows}.items():
        out.print(f"{bench}: {shape}", highlight=False, soft_wrap=True)
    write_json(json_path, [row.to_json() for row in rows])
