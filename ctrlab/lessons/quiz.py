"""The quiz at a lesson's end: four questions as a widget and, on a page without a kernel, as folded text.

A lesson's questions are `QUESTIONS` in its folder's quiz.py. Each wrong option has its own reason.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ipywidgets as widgets

from ctrlab.errors import CtrlabError
from ctrlab.lessons import topics

# The page sees whether anybody answers; the kernel, which may run under nbconvert, does not. JupyterLab shows the widget alone,
# where there is one; a page of nbconvert's, whose body has this class, the folded text alone.
STYLE = """
body:not(.jp-Notebook) .jp-OutputArea:has(.ctrlab-quiz) .ctrlab-folded { display: none; }
body.jp-Notebook .ctrlab-quiz { display: none; }
"""


@dataclass(frozen=True)
class Question:
    """A question, its right answer with the reason, and each wrong option with the reason why it is wrong."""

    text: str
    right: str
    because: str
    wrong: Mapping[str, str]

    @property
    def options(self) -> list[str]:
        """All answers. Their order is always the same, and does not depend on which one is right."""
        return sorted([self.right, *self.wrong], key=lambda option: hashlib.sha256(option.encode()).digest())

    def reason(self, option: str) -> str:
        """The text for a learner who chose `option`."""
        return f"Right. {self.because}" if option == self.right else f"No. {self.wrong[option]}"


def questions_of(lesson: str) -> tuple[Question, ...]:
    """The questions of a lesson, from the quiz.py in its folder.

    Raises:
        CtrlabError: it has none.
    """
    found = topics.module(lesson, "quiz")
    if found is None:
        raise CtrlabError(f"Lesson {lesson} has no quiz; its questions would be QUESTIONS in notebooks/{lesson}/quiz.py.")
    return found.QUESTIONS


def ask(questions: Sequence[Question], answered: Callable[[int, bool], None]) -> None:
    """Show the questions as a widget, and beside it as the folded text of a page without a kernel; a reader sees one of them.

    Args:
        questions, answered: as for `Quiz`.
    """
    from IPython.display import HTML, display

    display(Quiz(questions, answered))
    display(HTML(folded(questions)))


def folded(questions: Sequence[Question]) -> str:
    """The quiz as HTML without a kernel: the options, and the reasons in a fold."""
    asked = "".join(map(_folded, range(1, len(questions) + 1), questions))
    return f'<div class="ctrlab-folded"><style>{STYLE}</style>{asked}</div>'


def _folded(number: int, question: Question) -> str:
    options = "".join(f"<li>{html.escape(option)}</li>" for option in question.options)
    reasons = "".join(
        f"<li><em>{html.escape(option)}</em> {html.escape(question.reason(option))}</li>" for option in question.options
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
        super().__init__([self._asked(n, question, answered) for n, question in enumerate(questions, 1)])
        self.add_class("ctrlab-quiz")

    def _asked(self, number: int, question: Question, answered: Callable[[int, bool], None]) -> widgets.VBox:
        choice = widgets.RadioButtons(options=question.options, value=None, layout={"width": "auto", "margin": "0 0 0 1em"})
        reason = widgets.HTML()
        chosen = []

        def choose(change: dict) -> None:
            option = change["new"]
            reason.value = f"<p style='margin:0 0 1em 1em' role='status'>{html.escape(question.reason(option))}</p>"
            chosen.append(option)
            if len(chosen) == 1:
                answered(number, option == question.right)

        choice.observe(choose, names="value")
        return widgets.VBox([widgets.HTML(f"<b>{number}. {html.escape(question.text)}</b>"), choice, reason])

    def _repr_mimebundle_(self, **kwargs) -> dict:
        """The widget's MIME bundle without plain text: if the widget can't be shown, the folded text stands below."""
        return {kind: shown for kind, shown in super()._repr_mimebundle_(**kwargs).items() if kind != "text/plain"}
