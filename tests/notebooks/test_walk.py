"""A learner's walk through a lesson stops at each prediction and each stub, and the proof of it can fail."""

import sys

import pytest

from ctrlab.lessons import build, notebook
from tests.notebooks import walk

LESSONS = build.lessons()


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_stub_is_met_and_every_solved_cell_follows(lesson):
    solved = LESSONS[lesson]
    cells = walk.walk(solved).cells
    names = [cell.id for cell in cells]
    for n in notebook.solutions(solved):
        assert names.index(f"stub-{n}") < names.index(f"exercise-{n}") < names.index(f"check-{n}")
    whole = [cell.source for cell in solved.cells if cell.cell_type == "code"]
    assert [cell.source for cell in cells if cell.id in {c.id for c in solved.cells}] == whole


@pytest.mark.parametrize(
    "last, passes", [(NameError("Exercise 1"), False), (KeyError("other"), False), (KeyError("Exercise 1"), True)]
)
def test_the_proof_fails_where_the_learner_was_not_stopped_by_the_stub(last, passes):
    sys.last_value = last
    proof = walk.STOPPED.format(kinds=("KeyError",), says="Exercise 1")
    if passes:
        exec(proof)
        with pytest.raises(KeyError, match="last_value"):
            exec(proof)
    else:
        with pytest.raises(AssertionError):
            exec(proof)
