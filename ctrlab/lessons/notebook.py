"""A lesson's notebook as a file, as nbformat reads and writes it: its canonical form, and the regions that hold the solutions.

The solved notebook is the source, and says so below its title. Its exercise cells are tagged `exercise-1`, `exercise-2`, ... and
hold one region each, between `### BEGIN SOLUTION` and `### END SOLUTION` (`// ### ...` in C++). A markdown cell that holds the
line `<!-- solution 1 -->` receives that region's text in a fold.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4

from ctrlab.errors import BadData
from ctrlab.lessons import glossary

REGION = re.compile(r"^([ \t]*)(// )?### BEGIN SOLUTION[ \t]*\n(.*?)^[ \t]*(?:// )?### END SOLUTION[ \t]*$", re.S | re.M)
PREDICTION = re.compile(r"\blab\.predict\([^)]*\)")
_GUESS = re.compile(r"=\s*-?[\d._]+(e[-+]?\d+)?")
_EXERCISE = re.compile(r"exercise-(\d+)$")
_KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
KEEP_OUTPUT = "nbval-check-output"
SOLVED = "> This is the solved lesson. To do its exercises yourself, clone the repository and run `make lab`.\n\n"
"""The note below a lesson's title that it is the solved one; learners' notebooks don't have it."""
STUB = "Exercise {}: write this, then run its check"
"""The text of a stub in place of an answer: in Python a NotImplementedError, in C++ an #error."""


def read(path: Path) -> NotebookNode:
    """Reads a notebook; a cell without an id gets one from its place.

    Raises:
        BadData: the file is not a notebook of format 4.
    """
    try:
        nb = nbformat.reader.reads(Path(path).read_text(encoding="utf-8"))
        if nb.nbformat != 4:
            raise ValueError("not of format 4")
        nb.nbformat_minor = v4.nbformat_minor
        for place, cell in enumerate(nb.cells):
            cell.setdefault("id", f"cell-{place:02d}")
        if len({cell.id for cell in nb.cells}) < len(nb.cells):  # nbformat would call one of them by a random name
            raise ValueError("two cells have the same id")
        nbformat.validate(nb)
    except (OSError, ValueError, AttributeError, nbformat.ValidationError) as error:
        why = getattr(error, "message", None) or str(error).partition("\n")[0]
        raise BadData(f"A lesson must be a Jupyter notebook of format 4; {path} is not ({why}).") from error
    return nb


def dumps(nb: NotebookNode) -> str:
    """The text of its file: the same notebook is always the same bytes."""
    return nbformat.writes(nb) + "\n"


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def exercise_number(cell: NotebookNode) -> int | None:
    """n for a cell tagged `exercise-n`, else None."""
    return next((int(m[1]) for m in map(_EXERCISE.match, tags(cell)) if m), None)


def canonical(nb: NotebookNode) -> NotebookNode:
    """The notebook without the traces of a run: counts, widget state, and outputs, except those that nbval compares."""
    metadata = {"kernelspec": _KERNELSPEC, "language_info": {"name": "python"}}
    if "ctrlab" in nb.metadata:
        metadata["ctrlab"] = nb.metadata.ctrlab
    return v4.new_notebook(cells=list(map(_cell, nb.cells)), metadata=metadata)


def _cell(cell: NotebookNode) -> NotebookNode:
    kept = {"id": cell.id, "metadata": {"tags": tags(cell)} if tags(cell) else {}, "source": cell.source.strip("\n")}
    if cell.cell_type == "code":
        kept["outputs"] = cell.outputs if KEEP_OUTPUT in tags(cell) else []
    return getattr(v4, f"new_{cell.cell_type}_cell")(**kept)


def solutions(nb: NotebookNode) -> dict[int, str]:
    """Exercise number -> the full source of its solved cell."""
    return {n: cell.source for cell in nb.cells if (n := exercise_number(cell)) is not None}


def in_cpp(cell_source: str) -> bool:
    """Whether a cell's language is C++."""
    return cell_source.startswith(("%%kernel", "%%cpp"))


def region_text(cell_source: str) -> str:
    """The text inside a cell's region, dedented."""
    return textwrap.dedent(REGION.search(cell_source)[3]).strip("\n")


def learner(solved: NotebookNode) -> NotebookNode:
    """The learner's notebook: every region a stub that raises, its text in the solution's fold, dots for each guess, no output.
    The first use of each term of the glossary is a link.

    Raises:
        BadData: an exercise without a region, a region outside an exercise, or a solution that no fold shows.
    """
    nb = canonical(solved)
    answers: dict[int, str] = {}
    for cell in nb.cells:
        text, n = cell.source, exercise_number(cell)
        if "### BEGIN SOLUTION" in text or "### END SOLUTION" in text or n is not None:
            if n is None or len(REGION.findall(text)) != 1:
                raise BadData(f"An exercise is one cell tagged exercise-n with one region; cell {cell.id!r} is not.")
            answers[n] = region_text(text)
            cell.source = REGION.sub(lambda m, n=n: _stub(m, n), text)
        if cell.cell_type == "code":
            cell.outputs = []
            cell.source = PREDICTION.sub(lambda call: _GUESS.sub("=...", call[0]), cell.source)
    for n, answer in answers.items():
        _fold(nb, n, answer, language="cpp" if in_cpp(solutions(solved)[n]) else "python")
    links = glossary.Links()
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = links.linked(cell.source.replace(SOLVED, ""))
    return nb


def _stub(region: re.Match, n: int) -> str:
    """The stub in place of a region. The methods of a class keep their signatures, and each raises."""
    indent, message = region[1], STUB.format(n)
    if region[2]:
        return f'{indent}#error "{message}"'
    raises = f'raise NotImplementedError("{message}")'
    around = [line for line in region.string[: region.start()].splitlines() if line and not line.startswith(indent or " ")]
    if indent and around and around[-1].startswith("class "):
        methods = re.findall(rf'^{indent}def .*:\n(?:{indent} +""".*"""\n)?', region[3], re.M)
        return "\n\n".join(f"{method}{indent}    {raises}" for method in methods)
    return indent + raises


def _fold(nb: NotebookNode, n: int, answer: str, language: str) -> None:
    mark = f"<!-- solution {n} -->"
    fold = f"<details><summary>Solution</summary>\n\n```{language}\n{answer}\n```\n\n</details>"
    for cell in nb.cells:
        if cell.cell_type == "markdown" and mark in cell.source:
            cell.source = cell.source.replace(mark, fold)
            return
    raise BadData(f"Every solution has its fold; exercise {n} has none. Write {mark} on a line of a markdown cell.")
