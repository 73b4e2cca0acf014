"""The run of solved lessons at `lesson`: which are chosen, what a verdict comes to, and that a lesson that fails is told."""

import pytest
from nbformat import v4

from ctrlab.lessons.progress import Speed, Verdict
from tests.notebooks import at_lesson

LESSONS = [f"part/{n:02}_topic" for n in range(7)]


def test_parts_cover_all_lessons_once():
    parts = [at_lesson.chosen([f"{n}/3"], LESSONS) for n in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == LESSONS and max(map(len, parts)) - min(map(len, parts)) <= 1
    assert at_lesson.chosen([], LESSONS) == LESSONS and at_lesson.chosen([LESSONS[4]], LESSONS) == [LESSONS[4]]


@pytest.mark.parametrize("argument", ["0/3", "4/3", "3", "1/0", "part/09_other"])
def test_what_is_neither_a_part_nor_a_lesson_is_one_sentence(argument):
    with pytest.raises(
        SystemExit, match=f"^Name parts, such as 2/6, or lessons, such as part/00_topic; '{argument}' is neither.$"
    ):
        at_lesson.chosen([argument], LESSONS)


def test_a_claim_that_is_false_or_a_speed_that_is_missed_is_no_pass():
    def came(**verdict) -> str:
        return at_lesson.outcome(Verdict("part/00_topic", "lesson", "a machine", **verdict))

    def speed(verdict: str) -> Speed:
        return Speed("fast", 2, 1.5, 1.2, 2.5, verdict)

    assert came(claims={"true": True, "none": None}, speed=speed("yes")) == "passed"
    assert came(claims={"true": True, "more is less": False}) == "not passed: more is less"
    assert came(speed=speed("inconclusive")) == "inconclusive: fast is 1.5x the baseline [1.2, 2.5]; at least 2x: inconclusive"
    assert at_lesson.outcome(None) == "no verdict was saved"


def test_a_cell_that_raises_is_told_and_memory_is_measured(monkeypatch):
    cells = [
        v4.new_code_cell(text, id=name)
        for name, text in (("big", "x = b'x' * 300_000_000"), ("odd", "import time\ntime.sleep(1)\n1 / 0"))
    ]
    monkeypatch.setattr(at_lesson.build, "lessons", lambda: {"part/00_topic": v4.new_notebook(cells=cells)})
    came, peak = at_lesson.run("part/00_topic")
    assert came == "odd: ZeroDivisionError: division by zero" and 3e8 < peak < 1e9
