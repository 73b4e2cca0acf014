"""The right answers that tests read from the notebooks: each is found, and is what its notebook gives to its check."""

import inspect
import re

import pytest
from solved import _code, solved

from ctrlab.lessons import check, course
from ctrlab.lessons.exercise import Exercise

EXERCISES = [(lesson.name, n) for lesson in course.lessons() for n in check.checks_of(lesson.name)]


@pytest.mark.parametrize("lesson, exercise", EXERCISES)
def test_each_solution_is_read_from_its_notebook(lesson, exercise):
    answer = solved(lesson, exercise)
    if isinstance(answer, str):
        assert "### BEGIN SOLUTION" in answer
        return
    text = "\n".join(cell.source for cell in _code(lesson))
    assert re.search(rf"lab\.check\({exercise}, {answer.__name__}\)", text)
    assert "### BEGIN SOLUTION" in inspect.getsource(answer) if inspect.isfunction(answer) else isinstance(answer, type)


@pytest.mark.parametrize("lesson, exercise", EXERCISES)
def test_a_declared_exercise_asks_for_the_notebook_s_function(lesson, exercise):
    declared, answer = check.checks_of(lesson)[exercise], solved(lesson, exercise)
    if isinstance(declared, Exercise) and not isinstance(answer, str):
        assert declared.asks.startswith(f"{answer.__name__}({', '.join(inspect.signature(answer).parameters)})")
