"""The figures of the lessons: one module per lesson, named as its checks are; each public function draws one figure."""

from __future__ import annotations

import importlib
import importlib.util
import inspect

from ctrlab.errors import CtrlabError, choose
from ctrlab.lessons import course


def of_lesson(lesson: str, name: str):
    """Draw a figure of a lesson: "02_ops/02_one_lookup" has its figures in figures/one_lookup.py.

    Raises:
        CtrlabError: the lesson has no figures. UnknownName: it has none of this name.
    """
    module = f"{__name__}.{course.topic(lesson)}"
    if importlib.util.find_spec(module) is None:
        raise CtrlabError(f"Lesson {lesson} has no figures; they would be functions of {module}.")
    found = importlib.import_module(module)
    drawn = {n: f for n, f in vars(found).items() if inspect.isfunction(f) and f.__module__ == module and not n.startswith("_")}
    return drawn[choose(f"figure of lesson {lesson}", name, drawn)]()
