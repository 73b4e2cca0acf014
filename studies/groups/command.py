"""The command line of the study, `ctrlab bench groups`."""

from __future__ import annotations

from typing import Annotated

import typer

from ctrlab.cli.app import JsonOption, ProfileOption, console, duration, import_tensorflow, require_files, write_json


def command(
    model: Annotated[str, typer.Argument(help="Whose requests per second are compared.")] = "deepfm",
    light: Annotated[str, typer.Option(help="A model with few requests.")] = "deepfm",
    heavy: Annotated[str, typer.Option(help="A model beside it that is always busy.")] = "dien",
    rows: Annotated[int, typer.Option(min=1, help="Candidates of a request; the light model's has a tenth.")] = 200,
    optimizations: Annotated[str, typer.Option(help="Of the exports; `stock` for the stock graph.")] = "all",
    seconds: Annotated[str, typer.Option(help="Of each side in a round.")] = "3s",
    profile: ProfileOption = None,
    json_path: JsonOption = None,
) -> None:
    """Compare a group of members with sessions: requests per second, and latency beside a heavy model and while versions change.

    - `ctrlab bench groups`
    - `ctrlab bench groups din --optimizations stock --json groups.json`
    """
    require_files(json_path)
    import_tensorflow()
    from ctrlab.errors import choose
    from ctrlab.model_names import DATA_SETS
    from ctrlab.profiling.records import record
    from studies.groups.bench import bench_groups
    from studies.groups.report import report

    names = [choose("model", name, DATA_SETS) for name in (model, light, heavy)]
    limits = {"rows": rows, "seconds": duration("--seconds", seconds), "optimizations": optimizations, "profile": profile}
    found = bench_groups(*names, **limits)
    report([(optimizations, found)]).show(console())
    write_json(json_path, record(**found.to_json(), optimizations=optimizations))
