"""The command line of the study, `ctrlab bench tables`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ctrlab.cli.app import console, import_tensorflow
from ctrlab.errors import BadData, CtrlabError
from ctrlab.paths import write_atomically
from ctrlab.profiling.records import read

RENDERERS = {
    "serving": "ctrlab.server.bench.report",
    "groups": "studies.groups.report",
    "fleet": "studies.fleet.report",
    "quantized": "studies.quantized.report",
    "workers_fitted": "studies.workers.report",
    "workers_held_out": "studies.workers.report",
}
"""{a file of records, whose name begins with its bench's: the module whose `tables` renders it}."""


def command(
    folder: Annotated[Path, typer.Argument(help="With serving.json, groups.json and others.")] = Path("data/measurements"),
    into: Annotated[Path | None, typer.Option(help="Write them into the marked places of this page.", dir_okay=False)] = None,
) -> None:
    """Write the records of `ctrlab bench serving`, `groups`, `fleet`, `quantized` and `workers` as tables.

    A file has one record, or a list of them: `--json` of several runs. Where there is none, that is said.

    - `ctrlab bench tables data/measurements --into docs/serving_measured.md`
    - `ctrlab bench tables data/measurements --into docs/several_workers.md`
    """
    if not folder.is_dir():
        raise CtrlabError(f"Records are in a folder; {folder} is none: name the one that has serving.json and the others.")
    records, text = recorded(folder), into and into.read_text(encoding="utf-8")
    import_tensorflow()
    if text is None:
        for name in RENDERERS:
            console().print(f"{rendered(name, records[name])}\n", highlight=False, soft_wrap=True, markup=False)
        return
    write_atomically(into, page(text, records, into.name))


def recorded(folder: Path) -> dict[str, list[Mapping]]:
    """{each of `RENDERERS`: the records of its file; none if there is no file}.

    Raises:
        BadData: a file has no record.
    """
    paths = {name: folder / f"{name}.json" for name in RENDERERS}
    return {name: read(path) if path.is_file() else [] for name, path in paths.items()}


def page(text: str, records: Mapping[str, Sequence[Mapping]], name: str) -> str:
    """A page's text with the tables for which it has places.

    Args:
        records: the records of each of `RENDERERS`.
        name: the page's name, for errors.
    Raises:
        BadData: the page has no place for a table, or the same place twice; a record does not belong to its bench.
    """
    from ctrlab.profiling.markdown import filled

    wanted = [each for each in records if f"<!-- {each}:" in text]
    if not wanted:
        raise BadData(f"{name} has no place for a table, a line <!-- serving: ... -->, of {', '.join(records)}.")
    for each in wanted:
        text = filled(text, each, rendered(each, records[each]), name)
    return text


def rendered(name: str, records: Sequence[Mapping]) -> str:
    """The tables of a bench's records, with the machine on which they were measured.

    Raises:
        BadData: a record does not belong to this bench.
    """
    if not records:
        return f"There is no record of `ctrlab bench {_bench(name)}` yet."
    tables = importlib.import_module(RENDERERS[name]).tables
    try:
        machines = dict.fromkeys(record["machine"] for record in records)
        return f"Measured on {'; '.join(machines)}.\n\n{tables(records)}"
    except (KeyError, TypeError, BadData) as problem:
        why = problem if isinstance(problem, BadData) else repr(problem)
        raise BadData(
            f"{name}.json has records of `ctrlab bench {_bench(name)}`; one is none ({why}): write it by --json."
        ) from None


def _bench(name: str) -> str:
    return name.partition("_")[0]
