"""`ctrlab bench input`: how fast each format is read."""

from __future__ import annotations

from typing import Annotated

import typer

from ctrlab.cli.app import ProfileOption, console, import_tensorflow


def command(
    name: Annotated[str, typer.Argument(help="A data set.")] = "criteo",
    profile: ProfileOption = None,
) -> None:
    """Time CSV, TFRecord and Parquet from the file to batches of ids, and beside them what pyarrow alone reads.

    - `ctrlab bench input criteo`
    """
    import_tensorflow()
    from ctrlab.profiling.markdown import interval, number
    from ctrlab.profiling.report import Part, Report
    from ctrlab.training.input_bench import bench_input, share_of_pyarrow

    headings = ("format", "us a batch", "million rows/s", "times as fast as CSV", "% of pyarrow alone")
    parts = []
    for batch, comparison in bench_input(name, profile).items():
        lines = []
        for variant, measured in comparison.measurements.items():
            share, faster = share_of_pyarrow(comparison, variant), str(comparison.ratio(variant))
            times = [interval(measured.interval, 1e6 * batch), number(1e-6 / measured.median), faster]
            lines.append([variant, *times, interval(share, 100) if share else ""])
        parts.append(Part(f"{name}, from the file to {batch:,} ids a batch", headings, lines))
    Report(parts).show(console())
