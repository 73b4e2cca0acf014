"""A lesson's notebook as a file: canonical JSON, and the regions that hold the solutions.

The solved notebook is the source. Its exercise cells are tagged `exercise-1`, `exercise-2`, ... and hold one region each,
between `### BEGIN SOLUTION` and `### END SOLUTION` (`// ### ...` in a `%%kernel` cell). A markdown cell that holds the line
`<!-- solution 1 -->` receives that region's text in a fold.
"""

from __future__ import annotations

import copy
import json
import re
import textwrap
from pathlib import Path

from ctrlab.errors import BadData

REGION = re.compile(r"^([ \t]*)(// )?### BEGIN SOLUTION[ \t]*\n(.*?)^[ \t]*(?:// )?### END SOLUTION[ \t]*$", re.S | re.M)
_EXERCISE = re.compile(r"exercise-(\d+)$")
_KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
KEEP_OUTPUT = "nbval-check-output"


def read(path: Path) -> dict:
    """The notebook as a dictionary.

    Raises:
        BadData: the file is no notebook of format 4.
    """
    try:
        nb = json.loads(Path(path).read_text(encoding="utf-8"))
        if nb["nbformat"] != 4 or not isinstance(nb["cells"], list):
            raise ValueError("not of format 4")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadData(f"A lesson must be a Jupyter notebook of format 4; {path} is not ({error}).") from error
    return nb


def dumps(nb: dict) -> str:
    """Canonical JSON text: the same notebook is always the same bytes."""
    return json.dumps(nb, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def source(cell: dict) -> str:
    return cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def exercise_number(cell: dict) -> int | None:
    """n for a cell tagged `exercise-n`, else None."""
    return next((int(m[1]) for m in map(_EXERCISE.match, tags(cell)) if m), None)


def canonical(nb: dict) -> dict:
    """Without all that a run leaves behind: counts, widget state, and outputs other than those that nbval compares."""
    metadata = {"kernelspec": _KERNELSPEC, "language_info": {"name": "python"}}
    if "ctrlab" in nb["metadata"]:
        metadata["ctrlab"] = nb["metadata"]["ctrlab"]
    return {"cells": [_cell(i, c) for i, c in enumerate(nb["cells"])], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _cell(place: int, cell: dict) -> dict:
    kept = {k: v for k, v in cell["metadata"].items() if k == "tags" and v}
    clean = {
        "cell_type": cell["cell_type"],
        "id": cell.get("id") or f"cell-{place:02d}",
        "metadata": kept,
        "source": source(cell).strip("\n").splitlines(keepends=True),
    }
    if cell["cell_type"] == "code":
        outputs = copy.deepcopy(cell.get("outputs", [])) if KEEP_OUTPUT in tags(cell) else []
        clean |= {"execution_count": None, "outputs": outputs}
    return clean


def solutions(nb: dict) -> dict[int, str]:
    """Exercise number -> the full source of its solved cell."""
    return {n: source(cell) for cell in nb["cells"] if (n := exercise_number(cell)) is not None}


def region_text(cell_source: str) -> str:
    """What stands inside a cell's region, dedented."""
    return textwrap.dedent(REGION.search(cell_source)[3]).strip("\n")


def learner(solved: dict) -> dict:
    """The learner's notebook: every region a stub that raises, its text in the solution's fold, no output at all.

    Raises:
        BadData: an exercise without a region, a region outside an exercise, or a solution that no fold shows.
    """
    nb = canonical(solved)
    answers: dict[int, str] = {}
    for cell in nb["cells"]:
        text, n = source(cell), exercise_number(cell)
        if "### BEGIN SOLUTION" in text or "### END SOLUTION" in text or n is not None:
            if n is None or len(REGION.findall(text)) != 1:
                raise BadData(f"An exercise is one cell tagged exercise-n with one region; cell {cell['id']!r} is not.")
            answers[n] = region_text(text)
            text = REGION.sub(lambda m, n=n: _stub(m, n), text)
            cell["source"] = text.splitlines(keepends=True)
        if cell["cell_type"] == "code":
            cell["outputs"] = []
    for n, answer in answers.items():
        _fold(nb, n, answer, language="cpp" if "%%kernel" in solutions(solved)[n] else "python")
    return nb


def _stub(region: re.Match, n: int) -> str:
    message = f"Exercise {n}: write this, then run its check"
    return f'{region[1]}#error "{message}"' if region[2] else f'{region[1]}raise NotImplementedError("{message}")'


def _fold(nb: dict, n: int, answer: str, language: str) -> None:
    mark = f"<!-- solution {n} -->"
    fold = f"<details><summary>Solution</summary>\n\n```{language}\n{answer}\n```\n\n</details>"
    for cell in nb["cells"]:
        if cell["cell_type"] == "markdown" and mark in source(cell):
            cell["source"] = source(cell).replace(mark, fold).splitlines(keepends=True)
            return
    raise BadData(f"Every solution has its fold; exercise {n} has none. Write {mark} on a line of a markdown cell.")
