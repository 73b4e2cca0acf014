"""`ctrlab workers plan`: how many workers tables of terabytes take, and what a day's training costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from ctrlab.cli.app import JsonOption, console, require_files, write_json
from ctrlab.errors import CtrlabError

if TYPE_CHECKING:
    from ctrlab.distributed.plan import Plan, Task

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
"""What the table says of a plan."""


def _number(value: float) -> str:
    from ctrlab.profiling.markdown import number  # it imports NumPy, which --help does without

    return number(value)


def command(
    ids: Annotated[float, typer.Option(help="Distinct ids that ever come, of all tables.")] = 10e9,
    tables: Annotated[int, typer.Option(help="That have them; one holds below 2^31 rows in a worker's memory.")] = 1,
    dim: Annotated[int, typer.Option(help="Numbers of a row.")] = 16,
    slots: Annotated[int, typer.Option(help="Of the optimizer, per number: Adagrad 1, Adam 2.")] = 1,
    admission: Annotated[float, typer.Option(help="The share of the ids that get a row.")] = 1.0,
    counting: Annotated[Literal["exact", "bloom"], typer.Option(help="How ids are counted before they get a row.")] = "exact",
    value_bytes: Annotated[int, typer.Option(help="Of a number of a row in memory; these tables train in float32.")] = 4,
    exchange_bytes: Annotated[int, typer.Option(help="Of one on the network: 4, or 2 with bf16_exchange.")] = 4,
    dense: Annotated[float, typer.Option(help="Weights that each worker has whole.")] = 4e6,
    lookups: Annotated[float, typer.Option(help="Ids per example.")] = 100.0,
    exponent: Annotated[float, typer.Option(help="Of Zipf's law, by which ids come.")] = 1.05,
    batch: Annotated[int, typer.Option(help="Examples of a step, of all workers.")] = 65_536,
    day_examples: Annotated[float, typer.Option(help="Examples that come each day.")] = 1e9,
    step_ms: Annotated[float, typer.Option(help="Of a worker's compute per step, whatever its part.")] = 10.0,
    example_us: Annotated[float, typer.Option(help="Of a worker's compute per example, microseconds.")] = 5.0,
    memory_gb: Annotated[float, typer.Option(help="Of a worker.")] = 256.0,
    headroom: Annotated[float, typer.Option(help="The share of it that is not for tables.")] = 0.1,
    in_memory: Annotated[float, typer.Option(help="The share of the rows in memory; the others lie on disk.")] = 1.0,
    reads: Annotated[float, typer.Option(help="Rows per second that a worker reads from its disk.")] = 500e3,
    writes_mb: Annotated[float, typer.Option(help="Megabytes per second that a worker writes to its disk.")] = 1_000.0,
    megabits: Annotated[float, typer.Option(help="Per second, of a worker's link.")] = 25_000.0,
    latency_us: Annotated[float, typer.Option(help="Of a message, microseconds.")] = 50.0,
    price: Annotated[float, typer.Option(help="Of a worker per hour.")] = 4.0,
    json_path: JsonOption = None,
) -> None:
    """Say how many workers hold a model's tables and keep up with its examples, and what a day's examples take.

    What a step takes, what a disk does and the price are placeholders: put in your own.

    - `ctrlab workers plan --ids 10e9 --dim 16`
    - `ctrlab workers plan --ids 10e9 --dim 16 --admission 0.2 --counting bloom --in-memory 0.1 --price 2.5`
    """
    require_files(json_path)
    from ctrlab.distributed.plan import Task

    rows = {"ids": ids, "tables": tables, "dim": dim, "slots": slots, "value_bytes": value_bytes}
    rows |= {"admission": admission, "counting": counting}
    data = {"dense": dense, "lookups": lookups, "exponent": exponent, "batch": batch, "day_examples": day_examples}
    speed = {"fixed": step_ms / 1e3, "per_example": example_us / 1e6, "price": price}
    worker = {
        "memory": memory_gb * GIGA,
        "headroom": headroom,
        "in_memory": in_memory,
        "reads": reads,
        "writes": writes_mb * MEGA,
    }
    link = {"exchange_bytes": exchange_bytes, "megabits": megabits, "latency": latency_us / 1e6}
    plans = _plans(Task(**rows, **data, **speed, **worker, **link))
    console().print(table_of(plans))
    plain = {
        name: {"refused": str(found)} if isinstance(found, CtrlabError) else found.to_json() for name, found in plans.items()
    }
    write_json(json_path, plain)


def _plans(task: Task) -> dict[str, Plan | CtrlabError]:
    """As asked; with each feature that changes the answer; with all of them. Those that can't be are their refusals.

    Raises:
        CtrlabError: none can be.
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
    """A column for each plan. What refuses one stands below."""
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
