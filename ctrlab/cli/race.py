"""`ctrlab race`: plan, data, race, tables, files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import JsonOption, ProfileOption, SourceOption, console, import_tensorflow, require_files
from ctrlab.errors import CtrlabError


def command(
    models: Annotated[str, typer.Option(help="all, or names joined by commas.")] = "all",
    optimizations: Annotated[
        str, typer.Option(help="Sets joined by commas; the rungs of one set are joined by +. The baseline always races.")
    ] = "none,all",
    profile: ProfileOption = None,
    data: SourceOption = "generated",
    json_path: JsonOption = None,
    html: Annotated[Path | None, typer.Option(help="Write a report that needs nothing else to be read.", dir_okay=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted race of the same options.")] = False,
) -> None:
    """Train the contest's six models against the clock, each set of optimizations against the baseline.

    The score is the contest's: training seconds at its numbers of steps, added up. A set whose AUC falls below the baseline's
    by more than three standard deviations over seeds does not count. Interrupted, the race keeps the models that are done.

    - `ctrlab race --models deepfm --profile tiny`
    - `ctrlab race --optimizations none,indicator,all --html race.html`
    - `ctrlab race --data real --json race.json --resume`
    """
    from ctrlab import profiles
    from ctrlab.paths import cache_folder
    from ctrlab.race import contest, live, runner, score

    plan = runner.Plan(contest.parse_models(models), contest.parse_sets(optimizations), profiles.current(profile), data)
    state = json_path or cache_folder() / f"race-{plan.profile.name}-{data}-{','.join(plan.sets)}.json"
    require_files(state, html)  # before hours of training, as is all that follows
    out = console()
    if resume and not state.exists():
        out.print(f"Nothing to go on with: there is no {state} yet, so the race begins anew.", markup=False, soft_wrap=True)
    begun = runner.begin(plan, state, resume)
    import_tensorflow()
    ceilings = runner.prepare(plan)
    with live.LiveTable(out, plan.models, plan.sets) as table:
        result = runner.race(plan, begun, state, ceilings, table.watch, table.on_model)
    out.print(live.final_table(result))
    if html:
        from ctrlab.race import report

        report.write(result, html)
        out.print(f"Report: {html}", soft_wrap=True)
    out.print(f"Result: {state}", soft_wrap=True)
    if failed := score.failures(result):
        raise CtrlabError(" ".join(failed))  # after everything is written
