"""The map of the course and what fits into a day."""

import json

import pytest

from ctrlab.errors import BadData, UnknownName
from ctrlab.lessons import course, index
from ctrlab.lessons.course import Lesson
from ctrlab.optimizations import LADDER


def lesson(name, rank, teach=10, do=30):
    return Lesson(name, name, "", teach, do, (), rank)


LESSONS = tuple(lesson(f"01_part/0{i}_x", rank) for i, rank in enumerate((2, 4, 1, 3), 1))


@pytest.mark.parametrize(
    "hours, plan",
    [(1, [(1, False), (3, True), (4, False)]), (2, [(1, True), (3, True), (4, True)]), (4, [(n, True) for n in (1, 2, 3, 4)])],
)
def test_syllabus_keeps_what_matters_and_stays_within_its_hours(hours, plan):
    slots = course.syllabus(hours, LESSONS)
    assert [(int(s.lesson.name[9]), s.hands_on) for s in slots] == plan
    assert sum(s.minutes for s in slots) <= 60 * hours


def test_every_lesson_belongs_to_a_part_and_ranks_differ():
    assert sum(len(part.lessons) for part in course.PARTS) == len(course.lessons()) > 0
    assert len({entry.rank for entry in course.lessons()}) == len(course.lessons())


def test_every_rung_has_its_lesson():
    assert {rung.lesson for rung in LADDER} <= {entry.name for entry in course.lessons()}


def test_unknown_lesson_says_the_nearest():
    with pytest.raises(UnknownName, match="02_ops/01_indicator_column"):
        course.lesson("02_ops/01_indicator")


def test_lessons_follow_each_other():
    names = [entry.name for entry in course.lessons()]
    assert [course.after(name).name for name in names[:-1]] == names[1:]
    assert course.after(names[-1]) is None


@pytest.mark.parametrize("entry", [None, {"title": "x"}, {"title": "x", "summary": "y", "needs": [], "rank": "soon"}])
def test_metadata_that_lack_something(tmp_path, entry):
    path = tmp_path / "01_part" / "01_x" / "lesson.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": [], "metadata": {"ctrlab": entry} if entry else {}}))
    with pytest.raises(BadData, match="metadata"):
        course.read_lesson(path)


def test_tables_name_what_is_there_and_what_is_to_come():
    table = index.course_table(link="notebooks/{name}/lesson.ipynb")
    assert "(notebooks/02_ops/01_indicator_column/lesson.ipynb)" in table and "To come" in table
