"""The command line of the study, `ctrlab bench graphs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ctrlab.cli.app import JsonOption, ProfileOption, console, import_tensorflow, require_files, write_json
from ctrlab.errors import choose
from ctrlab.model_names import DATA_SETS

if TYPE_CHECKING:
    from ctrlab.profiling.report import Report
    from studies.graphs.bench import GraphCost


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Models; wdl, deepfm, dlrm and din if none is named.")] = None,
    json_path: JsonOption = None,
    profile: ProfileOption = None,
) -> None:
    """Compare served graphs from ids: TensorFlow's session, onnxruntime, our processor. What hashing text costs is apart.

    onnxruntime gets an environment of its own below the cache folder, the first time.

    - `ctrlab bench graphs deepfm --json graphs.json`
    """
    require_files(json_path)
    models = [choose("model", name, DATA_SETS) for name in names or ("wdl", "deepfm", "dlrm", "din")]
    import_tensorflow()
    from ctrlab import profiles
    from ctrlab.profiling.records import record
    from studies.graphs.bench import bench_graphs

    rows = []
    for row in bench_graphs(models, profile):
        rows.append(row)
        write_json(json_path, record(profile=profiles.current(profile).name, rows=[row.to_json() for row in rows]))
    report(rows).show(console())


def report(rows: Sequence[GraphCost]) -> Report:
    """One line a model, number of candidates, part and side; a side that could not run has only its name."""
    from ctrlab.profiling.report import Part, Report
    from ctrlab.profiling.timing import Interval

    lines, first = [], None
    for row in rows:
        if first is None or (row.model, row.rows, row.part) != (first.model, first.rows, first.part):
            first = row
        cpu = f"{1e6 * Interval.of(row.cpu).median:,.0f}" if row.cpu else "-"
        less = "" if row is first else str(row.less_than(first)) if row.cpu else "missing"
        apart = "" if row is first or row.difference is None else f"{row.difference:.0e}"
        lines.append([row.model, f"{row.rows}", row.part, row.side, cpu, less, apart])
    headings = ("model", "rows", "part", "side", "CPU us", "times less", "difference")
    said = "Served graphs from ids, CPU per call, one thread; hashing text to ids apart"
    notes = [f"{row.model}, {row.rows} rows, {row.side}: {row.note}" for row in rows if row.note]
    return Report([Part(said, headings, lines, words=4, kinds=3)], notes)
