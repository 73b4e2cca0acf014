"""Exercises with a limit take each right answer that is built another way than the lesson's solution."""

import pytest
import right_in_numpy
import right_in_tensorflow

from ctrlab.lessons import check, course
from ctrlab.lessons.exercise import Exercise
from ctrlab.lessons.limits import limits_of

ANSWERS = right_in_tensorflow.ANSWERS | right_in_numpy.ANSWERS
LIMITED = {
    (lesson.name, n)
    for lesson in course.lessons()
    for n, asked in check.checks_of(lesson.name).items()
    if isinstance(asked, Exercise) and not asked.kernel and limits_of(asked)
}
CASES = [pytest.param(*key, answer, id=f"{key[0]}-{key[1]}-{answer.__name__}") for key, of in ANSWERS.items() for answer in of]


@pytest.mark.parametrize("lesson, exercise, answer", CASES)
def test_another_right_answer_passes(lesson, exercise, answer):
    check.run(lesson, exercise, answer, 1)


def test_each_declared_exercise_with_a_limit_has_three_of_them():
    assert ANSWERS.keys() == LIMITED
    assert min(map(len, ANSWERS.values())) >= 3
