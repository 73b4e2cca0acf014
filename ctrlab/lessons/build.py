"""Makes the files that are derived from the lessons: their canonical form, the glossary, the cheat sheet, and the tables of two
README.md.

`python -m ctrlab.lessons.build`; with --check it only compares. The learners' notebooks are made when a workbook is set up.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Annotated

import typer
from nbformat import NotebookNode

from ctrlab.errors import BadData, CtrlabError
from ctrlab.lessons import cheat_sheet, effort, glossary, limits, notebook, places, readme
from ctrlab.lessons import check as checking
from ctrlab.paths import write_atomically

_TITLE = re.compile(r"\A(# .+\n\n)")


def lessons() -> dict[str, NotebookNode]:
    """Every lesson's solved notebook by the lesson's name, in the order of the course, in its current required form.

    Raises:
        BadData: there is no lesson.
    """
    found = {f"{folder.parent.name}/{folder.name}": folder / "lesson.ipynb" for folder in places.folders().values()}
    if not found:
        raise BadData(f"A lesson is <part>/<NN_topic>/lesson.ipynb; {places.notebooks()} holds none.")
    return {name: _solved(notebook.read(path)) for name, path in found.items()}


def workbook(lessons: dict[str, NotebookNode]) -> dict[str, str]:
    """{file name: text} of the files in a learner's working folder: the notebooks, the glossary and the cheat sheet."""
    notebooks = {f"{name}.ipynb": notebook.dumps(notebook.learner(nb)) for name, nb in lessons.items()}
    return notebooks | {glossary.PAGE: glossary.page(), cheat_sheet.PAGE: cheat_sheet.page(lessons, "{name}.ipynb")}


def build(check: bool = False) -> list[Path]:
    """Bring each lesson, the glossary, the cheat sheet and two README.md up to date; return those that were not.

    Args:
        check: only compare, and change nothing.
    """
    solved, folder = {name: _with_limits(name, nb) for name, nb in lessons().items()}, places.notebooks()
    wanted = {places.lesson_path(name): notebook.dumps(nb) for name, nb in solved.items()}
    workbook(solved)  # raises where an exercise has no region or no fold
    wanted[folder / glossary.PAGE] = glossary.page()
    wanted[folder / cheat_sheet.PAGE] = cheat_sheet.page(solved, "{name}/lesson.ipynb")
    wanted |= readme.pages(folder)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not check:
        for path in stale:
            write_atomically(path, wanted[path])
    return stale


def _solved(nb: NotebookNode) -> NotebookNode:
    """A lesson in its canonical form, with its effort, and the note that it is the solved one below its title."""
    nb = notebook.canonical(effort.told(nb))
    if notebook.SOLVED not in nb.cells[0].source:
        nb.cells[0].source = _TITLE.sub(lambda title: title[1] + notebook.SOLVED, nb.cells[0].source)
    return nb


def _with_limits(name: str, nb: NotebookNode) -> NotebookNode:
    """The lesson, in which the text of each exercise ends with its check's limits and tolerances."""
    has_checks = (places.lesson_path(name).parent / "checks.py").exists()
    for n, judged in checking.checks_of(name).items() if has_checks else ():
        told = [said[0].upper() + said[1:] for said in limits.limits_of(judged) + limits.tolerances_of(judged)]
        said = textwrap.fill(f"{effort.LIMITS} {'. '.join(told)}.", 140, break_long_words=False) if told else ""
        for cell in nb.cells:
            if cell.cell_type == "markdown" and re.search(rf"^## Exercise {n}\b", cell.source, re.M):
                cell.source = "\n\n".join(filter(None, [cell.source.partition(f"\n\n{effort.LIMITS}")[0], said]))
    return nb


def main(check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if a file is not as built.")] = False):
    """Make the files that are derived from the lessons: their canonical form, the glossary, the cheat sheet, and two tables."""
    try:
        stale = build(check)
    except CtrlabError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from None
    for path in stale:
        typer.echo(f"{'stale' if check else 'written'}: {path}")
    raise typer.Exit(int(check and bool(stale)))


if __name__ == "__main__":
    typer.run(main)
