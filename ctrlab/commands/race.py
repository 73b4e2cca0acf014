"""`ctrlab race`: plan, data, race, tables, files."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from ctrlab import profiles
from ctrlab.commands import import_tensorflow
from ctrlab.errors import CtrlabError
from ctrlab.paths import cache_folder, require_place
from ctrlab.profiling import page
from ctrlab.race import contest, live, runner, score


def run(
    models: str, optimizations: str, profile: str | None, source: str, json_path: Path | None, html: Path | None, resume: bool
) -> None:
    """Races, prints the tables, writes the files asked for.

    Raises:
        CtrlabError: bad options or data; or, after everything is written, a variant that does not count.
    """
    plan = runner.Plan(contest.parse_models(models), contest.parse_sets(optimizations), profiles.current(profile), source)
    state = json_path or cache_folder() / f"race-{plan.profile.name}-{source}-{','.join(plan.sets)}.json"
    require_place(state)  # before hours of training, as is all that follows
    console = Console()
    if resume and not state.exists():
        console.print(f"Nothing to go on with: there is no {state} yet, so the race begins anew.", markup=False, soft_wrap=True)
    begun = runner.begin(plan, state, resume)
    if html:
        page.check(html)
    ceilings = prepare(plan)
    with live.LiveTable(console, plan.models, plan.sets) as table:
        result = runner.race(plan, begun, state, ceilings, table.watch, table.on_model)
    console.print(live.final_table(result))
    if html:
        from ctrlab.race import report

        report.write(result, html)
        console.print(f"Report: {html}")
    console.print(f"Result: {state}")
    if failed := score.failures(result):
        raise CtrlabError(" ".join(failed))


def prepare(plan: runner.Plan):
    """Data of every model of the plan, and this machine's ceilings; both are kept from one race to the next."""
    from ctrlab import data
    from ctrlab.profiling.roofline import ceilings

    for name in dict.fromkeys(contest.data_set(model, plan.data) for model in plan.models):
        data.prepare(name, profile=plan.profile, source=plan.data, format="csv")
    # A floor is worth most when its ceilings were measured in the same hour; at `tiny` nobody reads floors.
    import_tensorflow()
    return ceilings(measure_again=plan.profile.name != "tiny")
