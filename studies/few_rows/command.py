"""The command line of the study, `ctrlab bench few-rows`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ctrlab.cli.app import JsonOption, console, import_tensorflow, require_files, write_json
from ctrlab.errors import choose
from ctrlab.model_names import DATA_SETS

if TYPE_CHECKING:
    from ctrlab.profiling.report import Report
    from studies.few_rows.bench import FewRows

SAMPLES = ("criteo", "census_income")
"""The public samples of plain columns; those of histories are no matter of a linear model."""
MODELS = "wdl,deepfm,dlrm,mmoe"


def command(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets; criteo and census_income if none is named.")] = None,
    rows: Annotated[list[int] | None, typer.Option(min=500, help="Training rows; can be given several times; 8,000.")] = None,
    models: Annotated[str, typer.Option(help="Names joined by commas.")] = MODELS,
    sizes: Annotated[str, typer.Option(help="Presets joined by commas.")] = "small,few_rows",
    on: Annotated[Literal["validation", "test"], typer.Option(help="Choose on validation rows; judge on test rows.")] = "test",
    json_path: JsonOption = None,
) -> None:
    """Compare presets on few rows with logistic regression and gradient boosting, on up to five splits of a real sample.

    The samples are those in the folder that CTRLAB_REAL_DATA names.

    - `ctrlab bench few-rows criteo --on validation --models dlrm --sizes few_rows`
    - `ctrlab bench few-rows census_income --rows 2000 --rows 8000 --rows 32000`
    """
    require_files(json_path)
    chosen = [choose("model", name, DATA_SETS) for name in models.split(",")]
    import_tensorflow()
    from ctrlab.models import MODELS
    from studies.few_rows.bench import compare

    known = {size for name in chosen for size in MODELS[name].presets}
    wanted = [choose("size", size, known) for size in sizes.split(",")]
    found = []
    for name in names or SAMPLES:
        for count in rows or (8_000,):
            for each in compare(name, count, chosen, wanted, on):
                found.append(each)
                write_json(json_path, [each.to_json() for each in found])
    report(found, on).show(console())


def report(found: Sequence[FewRows], on: str) -> Report:
    """One line per data set, number of rows, label and model, with its distance from the regression on the same splits."""
    import numpy as np

    from ctrlab.profiling.report import Part, Report
    from studies.few_rows.bench import REGRESSION

    base = {(each.data_set, each.rows): each.auc for each in found if each.model == REGRESSION}
    lines = []
    for each in found:
        for label, auc in each.auc.items():
            apart = np.subtract(auc, base[each.data_set, each.rows][label])
            spread = f"{apart.min():+.4f} to {apart.max():+.4f}" if each.model != REGRESSION else ""
            cells = [each.data_set, f"{each.rows:,}", label, each.model, each.size]
            lines.append([*cells, f"{np.mean(auc):.4f}", f"{apart.mean():+.4f}" if spread else "", spread, str(len(auc))])
    headings = ("data set", "rows", "label", "model", "size", "AUC", "less the regression's", "of splits", "splits")
    return Report([Part(f"{on.capitalize()} rows; the mean of the splits", headings, lines, words=5, kinds=3)])
