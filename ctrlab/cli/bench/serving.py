"""`ctrlab bench serving`: served models under load, beside a stock server in Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ctrlab.cli.app import JsonOption, ProfileOption, console, import_tensorflow, require_files, write_json
from ctrlab.errors import choose
from ctrlab.model_names import DATA_SETS

if TYPE_CHECKING:
    from ctrlab.server.bench.beside_stock import Row


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Models; deepfm, dlrm and din if none is named.")] = None,
    json_path: JsonOption = None,
    profile: ProfileOption = None,
) -> None:
    """Load our server and a stock server in Python with the same requests: CPU per request, and the most within a limit.

    - `ctrlab bench serving deepfm --json serving.json`
    """
    require_files(json_path)
    models = [choose("model", name, DATA_SETS) for name in names or ("deepfm", "dlrm", "din")]
    import_tensorflow()
    from ctrlab.profiling.records import record
    from ctrlab.server.bench.beside_stock import bench_serving

    rows = []
    for row in bench_serving(models, profile):
        rows.append(row)
        write_json(json_path, record(rows=[dataclasses.asdict(row) for row in rows]))
    console().print(table_of(rows))


def table_of(rows: Sequence[Row]) -> Table:
    """One line a model, number of candidates and side."""
    from ctrlab.profiling.machine import machine
    from ctrlab.profiling.timing import Interval
    from ctrlab.server.bench.beside_stock import LIMIT, SHORT, STOCK, ratio

    table = Table(title=f"Served models; the limit is {LIMIT:g} times the stock server's unloaded median", caption=machine().line)
    for heading in ("model", "rows", "side"):
        table.add_column(heading, no_wrap=True)
    short = f"within {1e3 * SHORT:g} ms"
    for heading in ("CPU us per request", "times less", "without a front", "limit, ms", "most per s within it", short):
        table.add_column(heading, justify="right")
    for row in rows:
        stock = next(one for one in rows if (one.model, one.rows, one.side) == (row.model, row.rows, STOCK))
        less = "" if row.side == STOCK else str(ratio(stock, row))
        most, most_short = (str(Interval.of(found)) if found else "" for found in (row.most, row.most_short))
        cpu, alone = (f"{1e6 * Interval.of(found).median:,.0f}" if found else "" for found in (row.cpu, row.alone))
        table.add_row(row.model, str(row.rows), row.side, cpu, less, alone, f"{1e3 * row.limit:.3g}", most, most_short)
    return table
