"""`ctrlab workers plan`: how many workers tables of terabytes take, and what a day's training costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from ctrlab.cli.app import JsonOption, console, require_files, write_json

if TYPE_CHECKING:
    from ctrlab.distributed.plan import Plan, Task

GIGA = 1e9


def command(
    ids: Annotated[float, typer.Option(help="Distinct ids that ever come.")] = 10e9,
    dim: Annotated[int, typer.Option(help="Numbers of a row.")] = 16,
    slots: Annotated[int, typer.Option(help="Of the optimizer, per number: Adagrad 1, Adam 2.")] = 1,
    admission: Annotated[float, typer.Option(help="The share of the ids that get a row.")] = 1.0,
    counting: Annotated[Literal["exact", "bloom"], typer.Option(help="How ids are counted before they get a row.")] = "exact",
    value_bytes: Annotated[int, typer.Option(help="Of a number of a row: 4, or 2 in bfloat16.")] = 4,
    replicas: Annotated[int, typer.Option(help="Copies of each row.")] = 1,
    dense: Annotated[float, typer.Option(help="Weights that each worker has whole.")] = 4e6,
    lookups: Annotated[float, typer.Option(help="Ids per example.")] = 100.0,
    exponent: Annotated[float, typer.Option(help="Of Zipf's law, by which ids come.")] = 1.05,
    batch: Annotated[int, typer.Option(help="Examples of a step, of all workers.")] = 65_536,
    day_examples: Annotated[float, typer.Option(help="Examples that come each day.")] = 1e9,
    step_ms: Annotated[float, typer.Option(help="Of a worker's compute per step, whatever its part.")] = 10.0,
    example_us: Annotated[float, typer.Option(help="Of a worker's compute per example, microseconds.")] = 5.0,
    memory_gb: Annotated[float, typer.Option(help="Of a worker, for tables.")] = 256.0,
    in_memory: Annotated[float, typer.Option(help="The share of the rows in memory; the others lie on disk.")] = 1.0,
    reads: Annotated[float, typer.Option(help="Rows per second that a worker reads from its disk.")] = 500e3,
    megabits: Annotated[float, typer.Option(help="Per second, of a worker's link.")] = 25_000.0,
    latency_us: Annotated[float, typer.Option(help="Of a message, microseconds.")] = 50.0,
    price: Annotated[float, typer.Option(help="Of a worker per hour.")] = 4.0,
    json_path: JsonOption = None,
) -> None:
    """Say how many workers hold a model's tables and keep up with its examples, and what a day's examples take.

    - `ctrlab workers plan --ids 10e9 --dim 16`
    - `ctrlab workers plan --ids 10e9 --dim 16 --admission 0.2 --counting bloom --in-memory 0.1 --price 2.5`
    """
    require_files(json_path)
    from ctrlab.distributed.plan import Task

    worker = {"fixed": step_ms / 1e3, "per_example": example_us / 1e6, "memory": memory_gb * GIGA, "reads": reads}
    link = {"megabits": megabits, "latency": latency_us / 1e6, "price": price}
    rows = {"ids": ids, "dim": dim, "slots": slots, "admission": admission, "counting": counting}
    rows |= {"value_bytes": value_bytes, "replicas": replicas, "in_memory": in_memory}
    data = {"dense": dense, "lookups": lookups, "exponent": exponent, "batch": batch, "day_examples": day_examples}
    plans = _plans(Task(**rows, **data, **worker, **link))
    console().print(table_of(plans))
    write_json(json_path, {name: found.to_json() for name, found in plans.items()})


def _plans(task: Task) -> dict[str, Plan]:
    """As asked; with each feature that changes the answer; with all of them."""
    from ctrlab.distributed.plan import FEATURES, plan, with_feature

    plans, every = {"as asked": plan(task)}, task
    for feature in FEATURES:
        plans[feature] = plan(with_feature(task, feature))
        every = with_feature(every, feature)
    return plans | {"all three": plan(every)}


def table_of(plans: dict[str, Plan]) -> Table:
    """A column for each plan."""
    from ctrlab.distributed.plan import FEATURES

    caption = "\n".join(f"{feature}: {what}" for feature, what in FEATURES.items())
    table = Table("", *plans, title="Plans", caption=caption, caption_justify="left")
    lines = {
        "index, GB": lambda p: f"{p.index / GIGA:,.0f}",
        "rows in memory, GB": lambda p: f"{p.rows_in_memory / GIGA:,.0f}",
        "counts of other ids, GB": lambda p: f"{p.counts / GIGA:,.0f}",
        "rows on disk, GB": lambda p: f"{p.on_disk / GIGA:,.0f}",
        "workers that hold it": lambda p: f"{p.shards:,}",
        "workers": lambda p: f"{p.workers:,}",
        "keep up": lambda p: "yes" if p.keeps_up else "no number does",
        "sent per step, MB": lambda p: f"{p.sent / 1e6:,.1f}",
        "step, ms": lambda p: f"{1e3 * p.step:,.1f}",
        "of it network, %": lambda p: f"{100 * p.network / p.step:.0f}",
        "of it disk, %": lambda p: f"{100 * p.disk / p.step:.0f}",
        "a day's examples, h": lambda p: f"{p.epoch / 3_600:,.2f}",
        "cost of them": lambda p: f"{p.cost:,.2f}",
    }
    for name, shown in lines.items():
        table.add_row(name, *(shown(found) for found in plans.values()))
    return table
