"""How long a lesson takes, derived from its cells: words to read, code to read, cells to run, lines to write.

The rates are those of a reader whose first language may not be English, and who writes Python daily and C++ rarely. Nobody was
timed: they order lessons and fill a day, and are not a promise.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from nbformat import NotebookNode

from ctrlab.errors import BadData
from ctrlab.lessons import notebook

WORDS_PER_MINUTE = 120
LINES_READ_PER_MINUTE = 12
MINUTES_PER_CELL = 0.4  # to run it, and to look at what comes out
MINUTES_TO_UNDERSTAND = 3  # an exercise: its line, its stub, its check
MINUTES_PER_LINE = {"python": 1.2, "cpp": 1.5}
TIMES_LONGER = {"easy": 1.0, "medium": 1.5, "hard": 2.0}

LIMITS = "**Limits of the check.**"
"""The beginning of the paragraph that the build writes at the end of an exercise's text."""
NOT_PROSE = re.compile(rf"```.*?```|<!--.*?-->|</?[a-z][^<>]*>|{re.escape(LIMITS)}.*?(?=\n\n|\Z)", re.S | re.I)
_HEADING = re.compile(rf"^(## Exercise (\d+).*\()({'|'.join(TIMES_LONGER)})(?:, \d+ minutes)?\)$", re.M)
_TABLE = "| to read | to do | difficulty | you write | needs | runs on |\n|---|---|---|---|---|---|\n"
_ROW = re.compile(re.escape(_TABLE) + r"\|.*\|(.*\|.*)\|$", re.M)


@dataclass(frozen=True)
class Effort:
    """Minutes to read a lesson and to do it, multiples of 5; the difficulty of its hardest exercise; what one writes in it."""

    read: int
    do: int
    difficulty: str
    writes: str


def words(nb: NotebookNode) -> int:
    """The number of words of prose in the lesson, as the learner sees it."""
    prose = (cell.source.replace(notebook.SOLVED, "") for cell in nb.cells if cell.cell_type == "markdown")
    return sum(len(NOT_PROSE.sub(" ", text).split()) for text in prose)


def effort(nb: NotebookNode) -> Effort:
    """The effort that a solved notebook takes a learner.

    Raises:
        BadData: an exercise has no heading with its difficulty.
    """
    solutions, difficulties = notebook.solutions(nb), _difficulties(nb)
    code = [cell.source for cell in nb.cells if cell.cell_type == "code"]
    written = sum(_lines(notebook.region_text(source)) for source in solutions.values())
    read = words(nb) / WORDS_PER_MINUTE + (sum(map(_lines, code)) - written) / LINES_READ_PER_MINUTE
    do = MINUTES_PER_CELL * len(code) + sum(_minutes(source, difficulties[n]) for n, source in solutions.items())
    hardest = max(difficulties.values(), key=list(TIMES_LONGER).index, default="easy")
    return Effort(_rounded(read), _rounded(do), hardest, _writes("\n".join(solutions.values())))


def told(nb: NotebookNode) -> NotebookNode:
    """The solved notebook with its effort in the table below its title, and in each exercise's heading; changed in place."""
    found, solutions = effort(nb), notebook.solutions(nb)
    row = f"{_TABLE}| {found.read} minutes | {found.do} minutes | {found.difficulty} | {found.writes} |"
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = _ROW.sub(lambda m: f"{row}{m[1]}|", cell.source)
            cell.source = _HEADING.sub(
                lambda m: f"{m[1]}{m[3]}, {_rounded(_minutes(solutions[int(m[2])], m[3]))} minutes)", cell.source
            )
    return nb


def _difficulties(nb: NotebookNode) -> dict[int, str]:
    text = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    found = {int(match[2]): match[3] for match in _HEADING.finditer(text)}
    if missing := sorted(notebook.solutions(nb).keys() - found.keys()):
        said = "; ".join(line for line in text.splitlines() if line.startswith("## Exercise"))
        raise BadData(f"An exercise's heading ends with (easy), (medium) or (hard); exercise {missing[0]} has none in: {said!r}.")
    return found


def _minutes(solved: str, difficulty: str) -> float:
    language = "cpp" if notebook.in_cpp(solved) else "python"
    return MINUTES_TO_UNDERSTAND + _lines(notebook.region_text(solved)) * MINUTES_PER_LINE[language] * TIMES_LONGER[difficulty]


def _writes(solutions: str) -> str:
    """The skills that a learner needs for writing: "NumPy", "TensorFlow ops; C++ (pointers, loops)"."""
    kinds = {"np.": "NumPy", "tf.": "TensorFlow ops", ".prefetch(": "tf.data"}
    kinds |= dict.fromkeys(("%%kernel", "%%cpp"), "C++ (pointers, loops)")
    return "; ".join(dict.fromkeys(name for mark, name in kinds.items() if mark in solutions)) or "plain Python"


def _lines(source: str) -> int:
    return sum(1 for line in source.splitlines() if line.strip())


def _rounded(minutes: float) -> int:
    return 5 * math.ceil(minutes / 5)
