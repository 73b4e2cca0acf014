"""Wrong answers that fit any exercise, made of its right one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed


class Replay:
    """The right answer to the question before."""

    def __init__(self, right: Callable):
        self.right, self.last = right, None

    def __call__(self, *question):
        now = self.right(*question)
        last, self.last = self.last, now
        return now if last is None else last


class ByHeart:
    """Right on one seed: it knows the answers to that seed's questions, in order; asked on, it gives the last one again."""

    def __init__(self, lesson: str, exercise: int, right: Callable):
        self.of, self.answers = (lesson, exercise, right), None

    def __call__(self, *question):
        if self.answers is None:
            self.answers = self._learned(*self.of)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @staticmethod
    def _learned(lesson: str, exercise: int, right: Callable) -> list:
        answers = []

        def learning(*question):
            answers.append(right(*question))
            return answers[-1]

        check.run(lesson, exercise, learning, seed=0)
        return answers


def judge(lesson: str, exercises: dict[int, tuple[Callable, Iterable[Callable] | dict[Callable, str]]]):
    """Two tests of a lesson's checks, for its test file to bind: right answers pass, wrong ones are refused.

    Args:
        exercises: by number, the right answer and wrong ones (or, of each, a pattern of what its refusal says). A replay, and
            what was learned by heart, are wrong answers to each.
    """
    seen = [(n, seed) for n in exercises for seed in range(3)]
    wrong = []
    for n, (right, answers) in exercises.items():
        says = answers if isinstance(answers, dict) else dict.fromkeys(answers)
        says = {**says, Replay(right): None, ByHeart(lesson, n, right): None}
        wrong += [pytest.param(n, answer, words, id=f"{n}-{named(answer)}") for answer, words in says.items()]

    @pytest.mark.parametrize("exercise, seed", seen)
    def test_right_answers_pass(exercise, seed):
        check.run(lesson, exercise, exercises[exercise][0], seed)

    @pytest.mark.parametrize("exercise, answer, says", wrong)
    def test_wrong_answers_are_refused(exercise, answer, says):
        with pytest.raises(CheckFailed, match=says) as refused:
            check.run(lesson, exercise, answer, 1)
        assert refused.value.rule.endswith(".") and refused.value.received is not None and refused.value.next_step

    return test_right_answers_pass, test_wrong_answers_are_refused


def named(answer: object) -> str:
    """The answer's name in pytest's report."""
    return getattr(answer, "__name__", type(answer).__name__)
