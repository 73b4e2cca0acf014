"""The command line of the study, `ctrlab bench checkpoints`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from ctrlab.cli.app import ModelArgument, OptimizationsOption, ProfileOption, console, import_tensorflow

if TYPE_CHECKING:
    from ctrlab.profiling.timing import Interval


def command(
    model: ModelArgument = "wdl",
    optimizations: OptimizationsOption = "all",
    profile: ProfileOption = None,
) -> None:
    """Time how long training stands still for a checkpoint: written in the loop, by a thread, by TensorFlow's own.

    - `ctrlab bench checkpoints wdl`
    """
    import_tensorflow()
    from ctrlab import profiles
    from ctrlab.paths import cache_folder
    from ctrlab.profiling.machine import machine
    from ctrlab.training import Run, Spec
    from studies.checkpoints.bench import measure_stall

    with Run(Spec(model, optimizations, profile=profile)) as run:
        batch = next(run.batches)
        repetitions = profiles.current(profile).repetitions
        found = measure_stall(run.model, run.optimizer, lambda: run.step(*batch), cache_folder(), repetitions)
    table = Table(title=f"A checkpoint of {model}, {found.megabytes:.0f} MB", caption=machine().line)
    for heading in ("saver", "save(), ms", "share of synchronous", f"stall over {found.steps} steps, ms", "share of synchronous"):
        table.add_column(heading, justify="left" if heading == "saver" else "right")
    for name in found.calls.measurements:
        call, stall = found.calls[name].interval, found.stall(name)
        table.add_row(name, _milliseconds(call), str(found.call_share(name)), _milliseconds(stall), str(found.stall_share(name)))
    console().print(table)


def _milliseconds(seconds: Interval) -> str:
    return f"{1e3 * seconds.median:.3g} [{1e3 * seconds.low:.3g}, {1e3 * seconds.high:.3g}]"
