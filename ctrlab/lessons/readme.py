"""The tables of two pages that are derived from the code: the map of the course, and the ladder."""

from __future__ import annotations

from pathlib import Path

from ctrlab.lessons import index
from ctrlab.optimizations import LADDER
from ctrlab.profiling.markdown import filled


def pages(notebooks: Path) -> dict[Path, str]:
    """{path: text} of the lessons' README.md and the checkout's, with up-to-date tables.

    Raises:
        BadData: a table's place, from `<!-- course: ... -->` to `<!-- end of course -->`, is missing.
    """
    tables = {
        notebooks / "README.md": ("course", index.course_table(link="{name}/lesson.ipynb")),
        notebooks.parent / "README.md": ("ladder", ladder_table()),
    }
    return {path: filled(path.read_text(encoding="utf-8"), *table, str(path)) for path, table in tables.items()}


def ladder_table() -> str:
    """Every rung in Markdown."""
    lines = ["| rung | what it does | level | models | same results | reported elsewhere |", "|---|---|---|---|---|---|"]
    for rung in LADDER:
        same = "no" if rung.changes_results else "yes"
        lines.append(f"| `{rung.name}` | {rung.summary} | {rung.level} | {', '.join(rung.models)} | {same} | {rung.published} |")
    return "\n".join(lines)
