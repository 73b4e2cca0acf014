"""The command line of the study, `ctrlab bench fleet`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

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
    from ctrlab.fleet.allocation import POLICIES
    from ctrlab.model_names import DATA_SETS
    from ctrlab.profiling.machine import machine
    from ctrlab.profiling.records import record
    from studies.fleet.check import check
    from studies.fleet.report import CURVES, curve_line
    from studies.fleet.vary import VARIED, vary

    most = max(each.variants for each in VARIED)
    if cores is not None and cores <= most:
        raise CtrlabError(f"--cores is one for each of {most} variants and one for the main model at least; received {cores}.")
    models = [choose("model", name, DATA_SETS) for name in (first, second)]
    found = check(models, seconds=duration("--seconds", seconds), profile=profile)
    out = console()
    table = Table(*CURVES, title="One core's work")
    for each in found.curves.items():
        table.add_row(*curve_line(*each))
    out.print(table)
    table = Table("cores", "busy, %", "model", "requests", title="Seconds to an answer", caption=machine().line)
    for name in ("mean, ms", "simulated", "p99, ms", "simulated"):
        table.add_column(name, justify="right")
    for each in found.settings:
        times = [f"{1e3 * each.measured_mean:.2f}", f"{1e3 * each.simulated_mean:.2f} ({100 * each.mean_error:+.0f} %)"]
        times += [f"{1e3 * each.measured_p99:.2f}", f"{1e3 * each.simulated_p99:.2f} ({100 * each.p99_error:+.0f} %)"]
        table.add_row(each.pools, f"{100 * each.utilization:.0f}", each.model, f"{each.requests:,}", *times)
    out.print(table)
    varied = vary(found.curves, cores) if cores else []
    if varied:
        table = Table(
            "variants", "of the work, %", "limit, x mean", "crowding, x", title=f"Of {cores} cores, busy within limits, %"
        )
        for policy in POLICIES:
            table.add_column(policy, justify="right")
        for each, carried in varied:
            facts = f"{each.variants}", f"{100 * each.share:.0f}", f"{each.patience:g}", f"{each.crowding:g}"
            table.add_row(*facts, *(f"{100 * share:.0f}" for share in carried.values()))
        out.print(table)
    experiments = [each.to_json() | {"carried": carried} for each, carried in varied]
    write_json(json_path, record(**found.to_json(), cores=cores, experiments=experiments))
