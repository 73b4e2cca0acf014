"""The course on two pages, `notebooks/cheat_sheet.md`: the glossary's rules of thumb, and each lesson's key points."""

from __future__ import annotations

import re

from nbformat import NotebookNode

from ctrlab.errors import BadData
from ctrlab.lessons import glossary

PAGE = "cheat_sheet.md"

_POINTS = re.compile(r"\*\*Key points\*\*:?\n+((?:(?:\d+\.|[*-]) .*\n?(?:[ \t]+\S.*\n?)*)+)")


def page(lessons: dict[str, NotebookNode], link: str) -> str:
    """The sheet as Markdown.

    Args:
        lessons: solved notebooks by name ("02_ops/02_one_lookup"), in the order of the course.
        link: the path of a lesson's notebook, relative to the sheet: "{name}.ipynb".
    """
    links = glossary.Links(to="glossary.md")
    lines = ["# Cheat sheet", "", "Written by `python -m ctrlab.lessons.build` from the glossary and the lessons."]
    for heading, terms in glossary.contents()["rules"].items():
        lines += ["", f"## {heading}", ""]
        lines += [f"* **{links.linked(term)}**: {glossary.terms()[term]}" for term in terms]
    for name, nb in lessons.items():
        lines += ["", f"## [{nb.metadata.ctrlab.title}]({link.format(name=name)})", "", *key_points(name, nb)]
    return "\n".join(lines) + "\n"


def key_points(name: str, nb: NotebookNode) -> list[str]:
    """The points that a lesson ends with, as Markdown items of one line each.

    Raises:
        BadData: the lesson has none.
    """
    for cell in nb.cells:
        if cell.cell_type == "markdown" and (found := _POINTS.search(cell.source + "\n")):
            items = re.split(r"^(?:\d+\.|[*-]) ", found[1], flags=re.M)[1:]
            return [f"* {' '.join(item.split())}" for item in items]
    raise BadData(f"A lesson ends with **Key points** and a list; {name} has none.")
