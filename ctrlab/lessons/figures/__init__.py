"""The figures of the lessons: each public function of a lesson's figures.py draws one, with the kit in this package."""

from __future__ import annotations

import inspect

from ctrlab.errors import CtrlabError, choose
from ctrlab.lessons import topics


def of_lesson(lesson: str, name: str):
    """Draw the figure `name` of a lesson, from the figures.py in its folder.

    Raises:
        CtrlabError: the lesson has no figures. UnknownName: it has none of this name.
    """
    found = topics.module(lesson, "figures")
    if found is None:
        raise CtrlabError(f"Lesson {lesson} has no figures; they would be functions in notebooks/{lesson}/figures.py.")
    own = {n: f for n, f in vars(found).items() if inspect.isfunction(f) and f.__module__ == found.__name__}
    drawn = {n: f for n, f in own.items() if not n.startswith("_")}
    return drawn[choose(f"figure of lesson {lesson}", name, drawn)]()
