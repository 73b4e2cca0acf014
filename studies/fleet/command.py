"""The command line of the study, `ctrlab bench fleet`."""

from __future__ import annotations

from typing import Annotated

import typer

from ctrlab.cli.app import JsonOption, ProfileOption, console, duration, import_tensorflow, require_files, write_json


def command(
    first: Annotated[str, typer.Argument(help="The model with most of the traffic.")] = "deepfm",
    second: Annotated[str, typer.Argument(help="The other one.")] = "dien",
    seconds: Annotated[str, typer.Option(help="How long each setting is measured.")] = "10s",
    cores: Annotated[
        int | None, typer.Option(help="Also simulate a machine of so many, on which the second model has A/B variants.")
    ] = None,
    profile: ProfileOption = None,
    json_path: JsonOption = None,
) -> None:
    """Measure how long two models work on a request, and check the simulation of a machine's cores against this machine.

    - `ctrlab bench fleet deepfm dien`
    - `ctrlab bench fleet deepfm dien --cores 128`
    """
    require_files(json_path)
    import_tensorflow()
    from ctrlab.errors import CtrlabError, choose
    from ctrlab.model_names import DATA_SETS
    from ctrlab.profiling.records import record
    from studies.fleet.check import check
    from studies.fleet.report import report
    from studies.fleet.vary import VARIED, vary

    most = max(each.variants for each in VARIED)
    if cores is not None and cores <= most:
        raise CtrlabError(f"--cores is one for each of {most} variants and one for the main model at least; received {cores}.")
    models = [choose("model", name, DATA_SETS) for name in (first, second)]
    found = check(models, seconds=duration("--seconds", seconds), profile=profile)
    varied = vary(found.curves, cores) if cores else []
    experiments = [each.to_json() | {"carried": carried} for each, carried in varied]
    written = record(**found.to_json(), cores=cores, experiments=experiments)
    report(written).show(console())
    write_json(json_path, written)
