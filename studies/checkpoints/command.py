"""The command line of the study, `ctrlab bench checkpoints`."""

from __future__ import annotations

from ctrlab.cli.app import ModelArgument, OptimizationsOption, ProfileOption, console, import_tensorflow


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
    from ctrlab.profiling.markdown import interval
    from ctrlab.profiling.report import Part, Report
    from ctrlab.training import Run, Spec
    from studies.checkpoints.bench import measure_stall

    with Run(Spec(model, optimizations, profile=profile)) as run:
        batch = next(run.batches)
        repetitions = profiles.current(profile).repetitions
        found = measure_stall(run.model, run.optimizer, lambda: run.step(*batch), cache_folder(), repetitions)
    headings = ("saver", "save(), ms", "share of synchronous", f"stall over {found.steps} steps, ms", "share of synchronous")
    lines = []
    for name in found.calls.measurements:
        call, stall = (interval(seconds, 1e3) for seconds in (found.calls[name].interval, found.stall(name)))
        lines.append([name, call, str(found.call_share(name)), stall, str(found.stall_share(name))])
    Report([Part(f"A checkpoint of {model}, {found.megabytes:.0f} MB", headings, lines)]).show(console())
