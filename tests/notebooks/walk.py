"""Writes each lesson as a learner walks through it, for nbval to run: every prediction and every stub is reached and stops the
learner, who then puts the solution in and goes on.

`python -m tests.notebooks.walk FOLDER [LESSON ...]`; without a lesson it writes all.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nbformat import NotebookNode, v4

from ctrlab.lessons import build, notebook

STOPPED = """import sys

stopped = vars(sys).pop("last_value")  # there is none, and this raises, if the cell above went through
assert type(stopped).__name__ in {kinds} and {says!r} in str(stopped), stopped"""


def walk(solved: NotebookNode) -> NotebookNode:
    """The learner's code cells; behind each that a learner can't pass yet, proof that it stopped, and the solved cell.

    An exercise's stub is judged by its check at once, as a learner would who runs the notebook from the top.
    """
    checks = {tag: cell for cell in solved.cells for tag in notebook.tags(cell) if tag.startswith("check-")}
    cells = []
    for mine, whole in zip(notebook.learner(solved).cells, solved.cells):
        n = notebook.exercise_number(whole)
        if mine.cell_type != "code":
            continue
        if n is not None:
            says = notebook.STUB.format(n)
            if notebook.in_cpp(mine.source):  # the stub does not compile
                cells += _stopping(mine.source, f"stub-{n}", ("KernelError", "CellError"), says)
            else:
                cells += [_code(mine.source, f"stub-{n}")]
                cells += _stopping(checks[f"check-{n}"].source, f"unanswered-{n}", ("Unanswered",), says)
        elif notebook.PREDICTION.search(whole.source):
            cells += _stopping(mine.source, f"open-{whole.id}", ("Unanswered",), "Write a number")
        cells.append(_code(whole.source, whole.id, tags=notebook.tags(whole), outputs=whole.outputs))
    return v4.new_notebook(cells=cells, metadata=notebook.canonical(solved).metadata)


def _stopping(source: str, name: str, kinds: tuple[str, ...], says: str) -> list[NotebookNode]:
    proof = STOPPED.format(kinds=kinds, says=says)
    return [_code(source, name, tags=["raises-exception"]), _code(proof, f"{name}-stopped")]


def _code(source: str, name: str, tags: list[str] = (), outputs: list = ()) -> NotebookNode:
    """A cell that nbval takes for one that ran: it has a count, or its outputs would not be compared."""
    return v4.new_code_cell(source, id=name, execution_count=0, outputs=list(outputs), metadata={"tags": list(tags)})


if __name__ == "__main__":
    folder, *wanted = sys.argv[1:]
    for lesson, solved in build.lessons().items():
        if not wanted or lesson in wanted:
            path = Path(folder) / f"{lesson}.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(notebook.dumps(walk(solved)), encoding="utf-8")
