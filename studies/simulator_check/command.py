"""The command line of the study, `ctrlab bench simulator-check`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrlab.cli.app import JsonOption, console, import_tensorflow, require_files, write_json
from ctrlab.errors import BadData

if TYPE_CHECKING:
    from ctrlab.lessons.topics.more_workers.fitting import Checked

    from ctrlab.profiling.report import Report


def command(
    record: Annotated[Path, typer.Argument(help="What `ctrlab bench workers --json` wrote.", exists=True, dir_okay=False)],
    held_out: Annotated[Path, typer.Argument(help="Another such record, of other settings.", exists=True, dir_okay=False)],
    rate: Annotated[
        float, typer.Option(help="Links of so many megabits per second are held out of the first record, too.")
    ] = 100,
    cores: Annotated[float, typer.Option(min=1, help="Of the machine that was measured.")] = 2,
    json_path: JsonOption = None,
) -> None:
    """Fit the simulator's constants to measured steps, and check what it says of steps that were held out.

    Beside it stands a null model with one fitted constant: on what is no better than that, the simulator explains nothing.

    - `ctrlab bench simulator-check data/measurements/workers_fitted.json data/measurements/workers_held_out.json`
    """
    require_files(json_path)
    import_tensorflow()
    from ctrlab.lessons.topics.more_workers.fitting import check

    of, others = read(record), read(held_out)
    found = check(of.measured, of.alone, others.measured, rate, cores)
    report(found, of.measured[0].model).show(console())
    write_json(json_path, found.to_json())


def report(found: Checked, model: str) -> Report:
    """Each setting, with the error of the simulator and of the null model; their errors; the constants."""
    from ctrlab.profiling.report import Part, Report

    return Report(
        [
            Part(
                f"Steps of {model}",
                ("", "workers", "examples", "Mbit/s", "measured, ms", "simulated", "error, %", "null's, %"),
                _settings(found),
                kinds=1,
            ),
            Part("The simulator beside the null model", ("errors, %", "worst", "mean", "spread"), _errors(found)),
        ],
        [*_constants(found)],
    )


def _settings(found: Checked) -> list[list[str]]:
    lines = []
    for kind, settings, nulls in (("fitted", found.used, found.null_used), ("held out", found.held_out, found.null_held_out)):
        for each, null in zip(settings, nulls):
            link = "the machine's" if each.megabits is None else f"{each.megabits:g}"
            times = f"{1e3 * each.measured:.0f}", f"{1e3 * each.simulated:.0f}"
            errors = (f"{100 * error:+.1f}" for error in (each.error, null.error))
            lines.append([kind, str(each.workers), f"{each.batch:,}", link, *times, *errors])
    return lines


def _errors(found: Checked) -> list[list[str]]:
    from ctrlab.lessons.topics.more_workers.fitting import Errors

    lines = []
    kinds = {"fitted": (found.used, found.null_used), "held out": (found.held_out, found.null_held_out)}
    for kind, both in kinds.items():
        for name, settings in zip(("simulator", "null model"), both):
            errors = Errors.of(settings)
            shown = f"{100 * errors.worst:.1f}", f"{100 * errors.bias:+.1f}", f"{100 * errors.spread:.1f}"
            lines.append([f"{kind}, {name}", *shown])
    return lines


def _constants(found: Checked) -> Iterator[str]:
    model, host = found.fitted.model, found.fitted.host
    parts = {
        "per step": 1e3 * model.fixed,
        "more with others": 1e3 * model.sharing,
        "per 1,000 examples": 1e6 * model.per_example,
        "per 1,000 distinct ids": 1e6 * model.per_id,
        "per message": 1e3 * host.message,
        "per MB at least": 1e9 * host.byte,
    }
    per_worker = f"{1e3 * found.null.per_worker:.0f} ms x workers"
    yield f"Null model: one process's line x how often threads share a core + measured bytes / rate + {per_worker}"
    yield "ms " + ", ".join(f"{name} {ms:.3g}" for name, ms in parts.items())


def read(path: Path):
    """The first record of a file, `ctrlab.lessons.topics.more_workers.measured.Found`.

    Raises:
        BadData: the file holds no record, or none of several workers.
    """
    from ctrlab.lessons.topics.more_workers.measured import Found

    from ctrlab.profiling import records

    first, *_ = records.read(path)
    try:
        found = records.found_in(Found, first)
    except BadData as error:
        raise BadData(f"{path}: {error}") from None
    if not found.measured:
        raise BadData(f"{path} holds no steps of several workers; `ctrlab bench workers --workers 2` measures some.")
    return found
