"""The command line of the study, `ctrlab bench quantized`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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

    from studies.quantized.bench import QuantizedModel


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
    from studies.quantized.report import report

    found: list[QuantizedModel] = []
    for model in models:
        found.append(bench_quantized(model, data_set(model, source), source, profile))
        write_json(json_path, record(profile=profiles.current(profile).name, models=[each.to_json() for each in found]))
        if html:
            write_atomically(html, page.of_figures([plot(each) for each in found], "Rows in fewer bits"))
    report(found).show(console())


def plot(found: QuantizedModel) -> go.Figure:
    """A chart of all measures of a model's rungs; with several tasks, of the first."""
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
