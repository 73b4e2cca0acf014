"""Writes what follows from one source: each learner's notebook, the glossary, the cheat sheet, and the README's tables.

`python -m ctrlab.lessons.build`; with --check it only compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ctrlab.errors import BadData, CtrlabError
from ctrlab.lessons import cheat_sheet, effort, glossary, notebook, places, readme
from ctrlab.paths import write_atomically


def pairs(folder: Path) -> list[tuple[Path, Path]]:
    """(solved, learner) of every lesson under `folder`, in course order.

    Raises:
        BadData: there is none, or a learner's notebook has no solved one.
    """
    found = [(solved, solved.parents[1] / solved.name) for solved in sorted(folder.glob("*/solutions/*.ipynb"))]
    if not found:
        raise BadData(f"Lessons are <part>/solutions/NN_topic.ipynb; {folder} holds none.")
    if orphans := set(folder.glob("*/*.ipynb")) - {mine for _, mine in found}:
        raise BadData(f"A learner's notebook comes from a solved one; {min(orphans)} has none.")
    return found


def build(folder: Path, check: bool = False) -> list[Path]:
    """Make both notebooks of each pair, the glossary, the cheat sheet and README.md what they must be; return what was not so.

    Args:
        check: leave them as they are.
    """
    stale = []

    def require(path: Path, text: str) -> None:
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                write_atomically(path, text)

    solved_notebooks = {}
    for solved, mine in pairs(folder):
        nb = solved_notebooks[f"{mine.parent.name}/{mine.stem}"] = effort.told(notebook.read(solved))
        require(solved, notebook.dumps(notebook.canonical(nb)))
        require(mine, notebook.dumps(notebook.learner(nb)))
    require(folder / glossary.PAGE, glossary.page())
    require(folder / cheat_sheet.PAGE, cheat_sheet.page(solved_notebooks))
    main_page = folder.parent / "README.md"
    require(main_page, readme.updated(main_page.read_text(encoding="utf-8")))
    return stale


def main(check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if a file is not as built.")] = False):
    """Write what follows from one source: each learner's notebook, the glossary, the cheat sheet, and the README's tables."""
    try:
        stale = build(places.notebooks(), check)
    except CtrlabError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from None
    for path in stale:
        typer.echo(f"{'stale' if check else 'written'}: {path}")
    raise typer.Exit(int(check and bool(stale)))


if __name__ == "__main__":
    typer.run(main)
