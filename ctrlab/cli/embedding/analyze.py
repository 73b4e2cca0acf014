"""`ctrlab embedding analyze`: the report of a checkpoint's tables, summed up; TensorFlow is not needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from ctrlab.cli.app import JsonOption, console, require_files, write_json
from ctrlab.errors import choose
from ctrlab.paths import require_place, write_atomically


def command(
    checkpoint: Annotated[list[Path], typer.Argument(help="A folder of checkpoints, a save in it, or all shards of one.")],
    out: Annotated[Path | None, typer.Option(help="Write a row for each key to this Parquet file.", dir_okay=False)] = None,
    feature: Annotated[str | None, typer.Option(help="Of this table only.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the plots to this file.", dir_okay=False)] = None,
    json_path: JsonOption = None,
) -> None:
    """Say what each table holds and takes, what other thresholds of admission would have kept, and how old its keys are.

    It also says which thresholds of admission and eviction keep a share of the traffic.

    The Parquet file has of each key: feature, id, norm, frequency, last step, tier, whether it was admitted, and its bytes.

    - `ctrlab embedding analyze run`
    - `ctrlab embedding analyze run --feature item_id --html item_id.html --out item_id.parquet`
    """
    from ctrlab.embedding import analysis, analysis_summary
    from ctrlab.embedding.formats.resharding import read_any

    require_files(json_path, html)
    if out:
        require_place(out)
    save, states = read_any(checkpoint)
    if feature:
        states = {choose("feature", feature, states): states[feature]}
    report = analysis.report(states, dict.fromkeys(states))  # a checkpoint does not say where its rows lay
    filters = {name: len(state.filter) for name, state in states.items()}
    found = analysis_summary.summary(report, save.step, filters)
    screen = console()
    for table in (table_of_features(found), table_of_admission(found), table_of_ages(found), table_of_coverages(found)):
        screen.print(table)
    if out:
        analysis.write(report, out)
        screen.print(f"Every key: {out}, {len(report):,} rows", soft_wrap=True, highlight=False)
    write_json(json_path, found)
    if html:
        write_atomically(html, analysis_summary.page(report, found))
        screen.print(f"Plots: {html}", soft_wrap=True)


def table_of_features(found: dict) -> Table:
    """The table of each feature's content, the largest first, and the sums."""
    headings = ("table", "rows", "ids without a row", "MB", "traffic that rows cover", "median age (steps)")
    features = sorted(found["features"], key=lambda f: -f["bytes"])
    table = _table(f"Embedding variables at step {found['step']:,}", headings)
    for f in features:
        age = "" if f["median_age"] is None else f"{f['median_age']:,.0f}"
        table.add_row(f["feature"], f"{f['rows']:,}", f"{f['counted']:,}", _mb(f["bytes"]), f"{f['covered']:.1%}", age)
    rows, counted, size = (sum(f[name] for f in features) for name in ("rows", "counted", "bytes"))
    table.add_section()
    table.add_row("together", f"{rows:,}", f"{counted:,}", _mb(size), "", "")
    return table


def table_of_admission(found: dict) -> Table:
    """The table of the rows that admission with other thresholds would have left."""
    table = _table("If ids had got a row when they came for the n-th time", ("n", "rows", "MB", "traffic that rows cover"))
    table.caption = "of the ids that are here: what was evicted, or counted in a Bloom filter alone, is not"
    for left in found["admission"]:
        table.add_row(f"{left['threshold']:,}", f"{left['rows']:,}", _mb(left["bytes"]), f"{left['traffic']:.1%}")
    return table


def table_of_ages(found: dict) -> Table:
    """The table of ages: the number of steps since ids last came."""
    table = _table("Steps since ids last came", ("steps", "ids", "share of the ids", "share of the traffic"))
    ids, traffic = (max(1, sum(age[name] for age in found["ages"])) for name in ("ids", "traffic"))
    for age in found["ages"]:
        low, high = age["from"], age["to"]
        span = f"{low:,}" if high == low else f"{low:,} to {high:,}"
        table.add_row(span, f"{age['ids']:,}", f"{age['ids'] / ids:.1%}", f"{age['traffic'] / traffic:.1%}")
    return table


def table_of_coverages(found: dict) -> Table:
    """The table of the greatest admission thresholds, and the least steps to live, that keep a share of the traffic."""
    table = _table("To keep a share of the traffic", ("share", "admit at", "rows then", "or evict after (steps)", "rows then"))
    table.caption = "--admission and --evict-after; of the traffic that rows cover now, in the case of eviction"
    for each in found["coverages"]:
        row = [each[name] for name in ("admission", "rows_by_admission", "steps_to_live", "rows_by_steps_to_live")]
        table.add_row(f"{each['share']:.1%}", *(f"{number:,}" for number in row))
    return table


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=title)
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="right" if k else "left", no_wrap=not k)
    return table


def _mb(size: int) -> str:
    return f"{size / 1e6:,.2f}"
