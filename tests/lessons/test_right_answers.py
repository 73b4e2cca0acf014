"""Each declared exercise with a limit has right answers that are built in other ways, in the lesson's test_right_answers.py."""

import runpy

from ctrlab.lessons import check, course, places
from ctrlab.lessons.exercise import Exercise
from ctrlab.lessons.limits import limits_of


def test_each_declared_exercise_with_a_limit_has_three_of_them():
    found = {}
    for lesson in course.lessons():
        asked = check.checks_of(lesson.name).items()
        limited = {n for n, each in asked if isinstance(each, Exercise) and not each.kernel and limits_of(each)}
        path = places.lesson_path(lesson.name).parent / "test_right_answers.py"
        answers = runpy.run_path(str(path))["ANSWERS"] if path.exists() else {}
        assert answers.keys() == limited, lesson.name
        found |= {(lesson.name, n): len(set(of)) for n, of in answers.items()}
    assert min(found.values()) >= 3
