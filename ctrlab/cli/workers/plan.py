"""`ctrlab workers plan`: how many workers tables of terabytes take, and what a day's training costs."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, get_type_hints

import typer
from rich.table import Table

from ctrlab.cli.app import JsonOption, console, require_files, write_json
from ctrlab.distributed.task import Task, meanings
from ctrlab.errors import CtrlabError

if TYPE_CHECKING:
    from ctrlab.distributed.plan import Plan

GIGA, MEGA = 1e9, 1e6
LINES = {
    "index, GB": lambda p: _number(p.index / GIGA),
    "rows in memory, GB": lambda p: _number(p.rows_in_memory / GIGA),
    "counts of other ids, GB": lambda p: _number(p.counts / GIGA),
    "rows on disk, GB": lambda p: _number(p.on_disk / GIGA),
    "workers that hold it": lambda p: f"{p.shards:,}",
    "workers": lambda p: f"{p.workers:,}",
    "keep up": lambda p: "yes" if p.keeps_up else "no number does",
    "sent per step, MB": lambda p: _number(p.sent / MEGA),
    "step, ms": lambda p: _number(1e3 * p.step),
    "of it network, %": lambda p: _percent(p.network, p.step),
    "of it disk, %": lambda p: _percent(p.disk, p.step),
    "a day's examples, h": lambda p: _number(p.epoch / 3_600),
    "cost of them": lambda p: _number(p.cost),
}
"""The lines of the table about a plan."""


def _number(value: float) -> str:
    from ctrlab.profiling.markdown import number  # it imports NumPy, which --help does without

    return number(value)


def command(json_path: JsonOption = None, **given: float | str) -> None:
    """Say how many workers hold a model's tables and keep up with its examples, and what a day's examples take.

    What a step takes, what a disk does and the price are placeholders: put in your own.

    - `ctrlab workers plan --ids 10e9 --dim 16`
    - `ctrlab workers plan --ids 10e9 --dim 16 --admission 0.2 --counting bloom --in-memory 0.1 --price 2.5`
    """
    require_files(json_path)
    plans = _plans(Task(**{name: of.of_option(given[of.option or name]) for name, of in meanings().items()}))
    console().print(table_of(plans))
    plain = {
        name: {"refused": str(found)} if isinstance(found, CtrlabError) else found.to_json() for name, found in plans.items()
    }
    write_json(json_path, plain)


def _options() -> list[Parameter]:
    """An option for each field of a task."""
    kinds, found = get_type_hints(Task), []
    for name, of in meanings().items():
        kind = Annotated[kinds[name], typer.Option(help=of.says)]
        default = of.as_option(getattr(Task, name))
        found.append(Parameter(of.option or name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    return found


_JSON = Parameter("json_path", Parameter.KEYWORD_ONLY, default=None, annotation=JsonOption)
command.__signature__ = Signature([*_options(), _JSON])


def _plans(task: Task) -> dict[str, Plan | CtrlabError]:
    """The plan as requested, with each feature that changes it, and with all of them. Impossible plans are given as their errors.

    Raises:
        CtrlabError: no plan is possible.
    """
    from ctrlab.distributed.plan import FEATURES, plan, with_feature

    tasks, every = {"as asked": task}, task
    for feature in FEATURES:
        tasks[feature] = with_feature(task, feature)
        every = with_feature(every, feature)
    plans = {}
    for name, asked in (tasks | {"all three": every}).items():
        try:
            plans[name] = plan(asked)
        except CtrlabError as refusal:
            plans[name] = refusal
    if all(isinstance(found, CtrlabError) for found in plans.values()):
        raise plans["as asked"]
    return plans


def table_of(plans: dict[str, Plan | CtrlabError]) -> Table:
    """A table with one column per plan. Errors of impossible plans stand below."""
    from ctrlab.distributed.plan import FEATURES

    refusals = {f"{name}, refused": found for name, found in plans.items() if isinstance(found, CtrlabError)}
    caption = "\n".join(f"{name}: {what}" for name, what in (FEATURES | refusals).items())
    table = Table("", *plans, title="Plans", caption=caption, caption_justify="left")
    for name, shown in LINES.items():
        cells = ("refused" if isinstance(found, CtrlabError) else shown(found) for found in plans.values())
        table.add_row(name, *cells)
    return table


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}" if whole else "0"
