"""`ctrlab bench input`: how fast each format is read."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from ctrlab.cli.app import ProfileOption, console, import_tensorflow
from ctrlab.cli.bench.scaled import scaled


def command(
    name: Annotated[str, typer.Argument(help="A data set.")] = "criteo",
    profile: ProfileOption = None,
) -> None:
    """Time CSV, TFRecord and Parquet from the file to batches of ids, and beside them what pyarrow alone reads.

    - `ctrlab bench input criteo`
    """
    import_tensorflow()
    from ctrlab.profiling.machine import machine
    from ctrlab.training.input_bench import bench_input, share_of_pyarrow

    for batch, comparison in bench_input(name, profile).items():
        table = Table(title=f"{name}, from the file to {batch:,} ids a batch", caption=machine().line)
        table.add_column("format", no_wrap=True)
        for heading in ("us a batch", "million rows/s", "times as fast as CSV", "% of pyarrow alone"):
            table.add_column(heading, justify="right")
        for variant, measured in comparison.measurements.items():
            share = share_of_pyarrow(comparison, variant)
            table.add_row(
                variant,
                scaled(measured.interval, 1e6 * batch),
                f"{1e-6 / measured.median:.3g}",
                str(comparison.ratio(variant)),
                scaled(share, 100) if share else "",
            )
        console().print(table)
