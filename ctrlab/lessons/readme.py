"""The two tables of README.md that follow from the code: the map of the course and the ladder."""

from __future__ import annotations

from ctrlab.lessons import index
from ctrlab.optimizations import LADDER
from ctrlab.profiling.markdown import filled


def updated(text: str) -> str:
    """README.md with its tables as they must be now.

    Raises:
        BadData: a table's place, from `<!-- course: ... -->` to `<!-- end of course -->`, is not there.
    """
    for name, table in (("course", index.course_table(link="notebooks/{name}/lesson.ipynb")), ("ladder", ladder_table())):
        text = filled(text, name, table, "README.md")
    return text


def ladder_table() -> str:
    """Every rung in Markdown."""
    lines = ["| rung | what it does | level | models | same results | reported elsewhere |", "|---|---|---|---|---|---|"]
    for rung in LADDER:
        same = "no" if rung.changes_results else "yes"
        lines.append(f"| `{rung.name}` | {rung.summary} | {rung.level} | {', '.join(rung.models)} | {same} | {rung.published} |")
    return "\n".join(lines)
