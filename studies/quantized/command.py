"""The command line of the study, `ctrlab bench quantized`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ctrlab.cli.app import (
    JsonOption,
    ProfileOption,
    SourceOption,
    console,
    import_tensorflow,
    require_files,
    write_json,
)
from ctrlab.errors import choose
from ctrlab.model_names import DATA_SETS
from ctrlab.paths import write_atomically

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from studies.quantized.bench import Found


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Models; all if none is named.")] = None,
    source: SourceOption = "generated",
    html: Annotated[Path | None, typer.Option(help="Write a plot per model to this file.", dir_okay=False)] = None,
    json_path: JsonOption = None,
    profile: ProfileOption = None,
) -> None:
    """Compare exports with rows in float32, bfloat16 and 8 bits: AUC, calibration, bytes, CPU time of a request.

    A model takes minutes, so name one to measure one.

    - `ctrlab bench quantized deepfm --html deepfm.html`
    - `ctrlab bench quantized dlrm --source real --json dlrm.json`
    """
    require_files(json_path, html)
    models = [choose("model", name, DATA_SETS) for name in names or DATA_SETS]
    import_tensorflow()
    from ctrlab import profiles
    from ctrlab.profiling import page
    from ctrlab.profiling.records import record
    from ctrlab.race.contest import data_set
    from studies.quantized.bench import bench_quantized

    found: list[Found] = []
    for model in models:
        found.append(bench_quantized(model, data_set(model, source), source, profile))
        write_json(json_path, record(profile=profiles.current(profile).name, models=[each.to_json() for each in found]))
        if html:
            write_atomically(html, page.of_figures([plot(each) for each in found], "Rows in fewer bits"))
    console().print(table_of(found))
    for line in lines_of(found):
        console().print(line, highlight=False, soft_wrap=True)


def table_of(found: Sequence[Found]) -> Table:
    """One line a model, task and rung."""
    from ctrlab.profiling.machine import machine
    from ctrlab.profiling.timing import Interval

    table = Table(title="Rows in fewer bits; AUC and calibration less those in float32", caption=machine().line)
    for heading in ("model", "task", "rung"):
        table.add_column(heading, no_wrap=True)
    for heading in ("AUC / 1000", "calibration", "weights, MB", "all, MB", "CPU us per request", "times less"):
        table.add_column(heading, justify="right")
    for each in found:
        table.add_section()
        for task in each.auc:
            for name, rung in each.rungs.items():
                sizes = [f"{size / 1e6:.3g}" for size in (rung.weights_bytes, rung.total_bytes)]
                cpu = [f"{1e6 * Interval.of(rung.cpu).median:,.0f}", str(each.less_cpu(name))]
                area, ratio = each.apart("auc", name, task), each.apart("calibration", name, task)
                area = f"{1e3 * area.median:+.2f} [{1e3 * area.low:+.2f}, {1e3 * area.high:+.2f}]"
                table.add_row(each.model, task, name, area, f"{ratio.median:+.4f}", *sizes, *cpu)
    return table


def lines_of(found: Sequence[Found]) -> Iterator[str]:
    """Of each model and task, where the AUC falls."""
    from studies.quantized.bench import FALL

    for each in found:
        for task, area in each.auc.items():
            bits = each.falls_at(task)
            falls = f"{bits} bits" if bits else f"none of {each.bits[0]} to {each.bits[-1]} bits"
            yield f"{each.model}, {task}: AUC {area:.4f} on {each.rows:,} rows of {each.data_set}; {FALL:g} less at {falls}"


def plot(found: Found) -> go.Figure:
    """All measures of a model's rungs; of several tasks the first."""
    from ctrlab.profiling.charts import panels
    from ctrlab.profiling.timing import Interval

    task = next(iter(found.auc))
    measures = {
        "AUC, difference": {name: found.apart("auc", name, task) for name in found.rungs},
        "calibration, difference": {name: found.apart("calibration", name, task) for name in found.rungs},
        "weights (MB)": {name: Interval.of([rung.weights_bytes / 1e6]) for name, rung in found.rungs.items()},
        "CPU per request (us)": {name: Interval.of([1e6 * each for each in rung.cpu]) for name, rung in found.rungs.items()},
    }
    bits = found.falls_at(task)
    falls = f"at {bits} bits the AUC is .001 lower" if bits else "no number of bits lowers the AUC by .001"
    note = f"{found.source} rows of {found.data_set}, {found.rows:,} held out; task {task}; {falls}"
    return panels(measures, title=f"{found.model}: rows in fewer bits", note=note)
