"""The test of a lesson's checks on right answers that are built in other ways than its solutions."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from ctrlab.lessons import check


def passing(lesson: str, answers: Mapping[int, Sequence[Callable]]):
    """A test that the lesson's test file binds: each answer, by exercise number, passes."""
    cases = [pytest.param(n, answer, id=f"{n}-{answer.__name__}") for n, of in answers.items() for answer in of]

    @pytest.mark.parametrize("exercise, answer", cases)
    def test_another_right_answer_passes(exercise, answer):
        check.run(lesson, exercise, answer, 1)

    return test_another_right_answer_passes
