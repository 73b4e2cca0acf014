"""Wrong answers that fit any exercise, made of its right one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ctrlab.lessons import check


class Replay:
    """The right answer to the question before."""

    def __init__(self, right: Callable):
        self.right, self.last = right, None

    def __call__(self, *question):
        now = self.right(*question)
        last, self.last = self.last, now
        return now if last is None else last


class ByHeart:
    """Right on one seed: it knows the answers to that seed's questions, in order."""

    def __init__(self, lesson: str, exercise: int, right: Callable):
        self.known = self._learned(lesson, exercise, right)

    def __call__(self, *question):
        return next(self.known)

    @staticmethod
    def _learned(lesson: str, exercise: int, right: Callable) -> Iterator:
        answers = []

        def learning(*question):
            answers.append(right(*question))
            return answers[-1]

        check.run(lesson, exercise, learning, seed=0)
        yield from answers


def named(answer: object) -> str:
    """The answer's name in pytest's report."""
    return getattr(answer, "__name__", type(answer).__name__)
