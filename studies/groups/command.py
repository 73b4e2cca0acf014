"""The command line of the study, `ctrlab bench groups`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ctrlab.cli.app import JsonOption, ProfileOption, console, duration, import_tensorflow, require_files, write_json

if TYPE_CHECKING:
    from studies.groups.bench import Found


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

    names = [choose("model", name, DATA_SETS) for name in (model, light, heavy)]
    limits = {"rows": rows, "seconds": duration("--seconds", seconds), "optimizations": optimizations, "profile": profile}
    found = bench_groups(*names, **limits)
    for table in tables_of(found):
        console().print(table)
    write_json(json_path, record(**found.to_json(), optimizations=optimizations))


def tables_of(found: Found) -> Sequence[Table]:
    """Requests per second; latencies of the light model; what a larger machine gains."""
    from ctrlab.profiling.machine import machine
    from ctrlab.profiling.timing import Interval
    from studies.groups.bench import PROCESSORS, SESSIONS
    from studies.groups.splitting import CORES, FITTED

    first = Table(title=f"{found.model}, {found.rows} candidates, a caller per core", caption=machine().line)
    first.add_column("side", no_wrap=True)
    for heading in ("requests per s", "x as it comes", "x tuned"):
        first.add_column(heading, justify="right", no_wrap=True)
    for side, rates in found.per_second.items():
        if side == PROCESSORS[0]:
            first.add_section()
        name = f"tuned ({found.tuning[0]} intra, {found.tuning[1]} inter)" if side == "tuned" else side
        as_it_comes, tuned, *_ = SESSIONS if side in SESSIONS else PROCESSORS
        against = [str(_ratio(found.per_second, side, base)) for base in (as_it_comes, tuned)]
        first.add_row(name, f"{Interval.of(rates).median:.4g}", *against)
    second = Table(title=f"p99 of {found.light}, ms", caption=f"{found.versions} versions came while they changed")
    second.add_column("threads", no_wrap=True)
    for heading in ("alone", f"beside {found.heavy}", f"{found.heavy} per s", "versions change"):
        second.add_column(heading, justify="right", no_wrap=True)
    for layout in found.beside:
        alone, both, changes = (
            f"{1e3 * Interval.of(of[layout]).median:.3g}" for of in (found.alone, found.beside, found.changing)
        )
        second.add_row(layout, alone, both, f"{Interval.of(found.heavy_per_second[layout]).median:.4g}", changes)
    model = found.pools.fitted()
    off = ", ".join(f"{threads}: {100 * error:+.0f} %" for threads, error in found.pools.errors().items())
    title = f"{found.model}: what more threads in one pool cost"
    third = Table(title=title, caption=f"by pools of {FITTED} threads; off at others by {off}")
    third.add_column("cores", justify="right")
    third.add_column("a group's gain, estimated", justify="right")
    for cores in CORES:
        third.add_row(str(cores), f"{100 * (model.gain(cores) - 1):+.0f} %")
    return first, second, third


def _ratio(samples: Mapping[str, Sequence[float]], side: str, base: str):
    from ctrlab.profiling.timing import Interval

    return Interval.of([ours / theirs for ours, theirs in zip(samples[side], samples[base])])
