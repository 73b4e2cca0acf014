"""The quiz at a lesson's end: four questions as a widget, and as folded text where no kernel runs.

A lesson's questions are `QUESTIONS` in its module in `ctrlab.lessons.quizzes`. Each wrong option has its own reason.
"""

from __future__ import annotations

import hashlib
import html
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ipywidgets as widgets

from ctrlab.lessons import course


@dataclass(frozen=True)
class Question:
    """A question, its right answer with the reason, and each wrong option with the reason why it is wrong."""

    text: str
    right: str
    because: str
    wrong: Mapping[str, str]

    @property
    def options(self) -> list[str]:
        """All answers. Their order is always the same, and says nothing about which one is right."""
        return sorted([self.right, *self.wrong], key=lambda option: hashlib.sha256(option.encode()).digest())

    def reason(self, option: str) -> str:
        """What a learner reads who chose `option`."""
        return f"Right. {self.because}" if option == self.right else f"No. {self.wrong[option]}"


def questions_of(lesson: str) -> tuple[Question, ...]:
    """The questions of a lesson: "02_ops/02_one_lookup" has them in quizzes/one_lookup.py."""
    return importlib.import_module(f"ctrlab.lessons.quizzes.{course.topic(lesson)}").QUESTIONS


def folded(questions: Sequence[Question]) -> str:
    """The quiz as HTML without a kernel: the options, and the reasons in a fold."""
    return "".join(map(_folded, range(1, len(questions) + 1), questions))


def _folded(number: int, question: Question) -> str:
    options = "".join(f"<li>{html.escape(option)}</li>" for option in question.options)
    reasons = "".join(
        f"<li><em>{html.escape(option)}</em>: {html.escape(question.reason(option))}</li>" for option in question.options
    )
    answers = f"<details><summary>Answers</summary><ul>{reasons}</ul></details>"
    return f"<p><b>{number}. {html.escape(question.text)}</b></p><ul>{options}</ul>{answers}"


class Quiz(widgets.VBox):
    """The questions with their options. A choice shows its reason below at once.

    Args:
        questions: in order, numbered from 1.
        answered: called with the question's number and whether the choice was right, for its first choice only.
    """

    def __init__(self, questions: Sequence[Question], answered: Callable[[int, bool], None]):
        self._questions = tuple(questions)
        super().__init__([self._asked(n, question, answered) for n, question in enumerate(self._questions, 1)])

    def _asked(self, number: int, question: Question, answered: Callable[[int, bool], None]) -> widgets.VBox:
        choice = widgets.RadioButtons(options=question.options, value=None, layout={"width": "auto", "margin": "0 0 0 1em"})
        reason = widgets.HTML()
        chosen = []

        def choose(change: dict) -> None:
            option = change["new"]
            if not chosen:
                answered(number, option == question.right)
            chosen.append(option)
            reason.value = f"<p style='margin:0 0 1em 1em' role='status'>{html.escape(question.reason(option))}</p>"

        choice.observe(choose, names="value")
        return widgets.VBox([widgets.HTML(f"<b>{number}. {html.escape(question.text)}</b>"), choice, reason])

    def _repr_mimebundle_(self, **kwargs) -> dict:
        bundle = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": folded(self._questions)}
