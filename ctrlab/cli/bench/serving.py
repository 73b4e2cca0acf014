"""`ctrlab bench serving`: served models under load, beside a stock server in Python."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from ctrlab.cli.app import JsonOption, ProfileOption, console, import_tensorflow, require_files, write_json
from ctrlab.errors import choose
from ctrlab.model_names import DATA_SETS


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Models; deepfm, dlrm and din if none is named.")] = None,
    json_path: JsonOption = None,
    profile: ProfileOption = None,
) -> None:
    """Load our server and a stock server in Python with the same requests: CPU per request, and the most within a limit.

    - `ctrlab bench serving deepfm --json serving.json`
    """
    require_files(json_path)
    models = [choose("model", name, DATA_SETS) for name in names or ("deepfm", "dlrm", "din")]
    import_tensorflow()
    from ctrlab.profiling.records import record
    from ctrlab.server.bench.beside_stock import bench_serving
    from ctrlab.server.bench.report import report

    rows = []
    for row in bench_serving(models, profile):
        rows.append(row)
        write_json(json_path, record(rows=[dataclasses.asdict(row) for row in rows]))
    report(rows).show(console())
