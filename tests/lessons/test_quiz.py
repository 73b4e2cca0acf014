"""The questions of all lessons, and the widget that asks them."""

import xml.etree.ElementTree as ET

import pytest

from ctrlab.errors import CtrlabError
from ctrlab.lessons import course, quiz, topics
from ctrlab.lessons.progress import Store
from ctrlab.lessons.quiz import Question
from ctrlab.lessons.session import Lab

QUIZZES = [entry.name for entry in course.lessons() if topics.module(entry.name, "quiz")]
ASKED = Question("How many bytes has a float?", right="4 & no more", because="32 bits.", wrong={"8": "A double.", "2": "A half."})


@pytest.mark.parametrize("name", QUIZZES)
def test_four_questions_with_a_reason_for_every_option(name):
    questions = quiz.questions_of(name)
    assert len(questions) == 4
    for question in questions:
        assert question.text.endswith("?") and question.because.endswith(".")
        assert len(question.wrong) >= 2 and question.right not in question.wrong
        assert all(why.endswith(".") and len(why.split()) >= 3 for why in question.wrong.values())
        assert max(map(len, question.options)) <= 100, "an option is one line"
    places = [question.options.index(question.right) for question in questions]
    assert len(set(places)) > 1, "the right answer always stands at the same place: word one option differently"


def test_a_choice_shows_its_reason_and_the_first_one_counts():
    told = []
    box = quiz.Quiz([ASKED, ASKED], lambda *answer: told.append(answer))
    _, choice, reason = box.children[1].children
    assert choice.value is None and sorted(choice.options) == ["2", "4 & no more", "8"]
    choice.value = "8"
    assert "No. A double." in reason.value
    choice.value = "4 & no more"
    assert "Right. 32 bits." in reason.value and told == [(2, False)]


def test_a_reason_is_shown_also_where_the_choice_cannot_be_kept():
    def full(number, right):
        raise OSError("No space left on device")

    _, choice, reason = quiz.Quiz([ASKED], full).children[0].children
    with pytest.raises(OSError, match="No space"):
        choice.value = "8"
    assert "No. A double." in reason.value


def test_without_a_kernel_it_is_folded_text():
    page = ET.fromstring(quiz.folded([ASKED]))
    open_text = "".join(t for e in page if e.tag != "details" for t in e.itertext())
    fold = "".join(page.find("details").itertext())
    assert "4 & no more" in open_text and "A double." not in open_text and "Right" not in open_text
    assert all(reason in fold for reason in ("A double.", "A half.", "Right. 32 bits."))


def test_a_lesson_without_a_quiz_is_one_sentence(work):
    with pytest.raises(CtrlabError, match=r"no quiz.*notebooks/01_baseline/99_nowhere/quiz\.py"):
        Lab("01_baseline/99_nowhere", machine="a CPU").quiz()


def test_the_lab_keeps_the_first_choices(work, monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    monkeypatch.setattr(quiz, "questions_of", lambda lesson: (ASKED,))
    Lab("02_ops/01_indicator_column", machine="a CPU").quiz()
    assert shown[0]._repr_mimebundle_().keys() == {"application/vnd.jupyter.widget-view+json"}
    assert shown[1].data == quiz.folded([ASKED])
    shown[0].children[0].children[1].value = "4 & no more"
    Lab("02_ops/01_indicator_column", machine="a CPU").quiz()  # the cell again
    shown[2].children[0].children[1].value = "8"
    record = Store().load("02_ops/01_indicator_column")
    assert record.quiz == {"1": True} and record.state == "started"
