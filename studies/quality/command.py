"""The command line of the study, `ctrlab bench quality`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ctrlab.cli.app import JsonOption, console, import_tensorflow, require_files, write_json
from ctrlab.errors import choose
from ctrlab.model_names import DATA_SETS

if TYPE_CHECKING:
    from ctrlab.profiling.report import Report
    from studies.quality.bench import ModelQuality

SAMPLES = ("criteo", "census_income", "rees46", "amazon_reviews")
"""The public samples whose labels tell models apart; data/README.md says why the others don't."""


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; all with public samples if none is named.")] = None,
    models: Annotated[str, typer.Option(help="all that can use the data set, or names joined by commas.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each model; the table has their median.")] = 3,
    json_path: JsonOption = None,
) -> None:
    """Compare the quality of our models, at size "small", with logistic regression, gradient boosting and a plain Keras model.

    The samples are those in the folder that CTRLAB_REAL_DATA names. All models see the same columns of the same rows.

    - `ctrlab bench quality criteo --models deepfm,dlrm --json quality.json`
    """
    require_files(json_path)
    chosen = None if models == "all" else [choose("model", name, DATA_SETS) for name in models.split(",")]
    import_tensorflow()
    from studies.quality.bench import compare

    rows = []
    for name in names or SAMPLES:
        for row in compare(name, chosen, seeds):
            rows.append(row)
            write_json(json_path, [dataclasses.asdict(row) for row in rows])
    report(rows).show(console())


def report(rows: Sequence[ModelQuality]) -> Report:
    """One line per data set, label and model."""
    from ctrlab.profiling.report import Part, Report

    lines = []
    for row in rows:
        for label, found in row.auc.items():
            spread = f"{min(found):.4f} to {max(found):.4f}" if len(found) > 1 else ""
            loss = sorted(row.log_loss[label])[len(found) // 2]
            epochs = ", ".join(map(str, row.epochs))
            lines.append([row.data_set, label, row.model, f"{row.median(label):.4f}", spread, f"{loss:.4f}", epochs])
    headings = ("data set", "label", "model", "AUC", "of", "log loss", "epochs")
    return Report([Part("Held-out rows; the median of the seeds", headings, lines, words=3, kinds=1)])
