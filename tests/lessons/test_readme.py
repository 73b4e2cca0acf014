"""The tables of the README.md come from the code."""

import pytest

from ctrlab.errors import BadData
from ctrlab.lessons import course, readme
from ctrlab.optimizations import LADDER


def page(table: str) -> str:
    return f"a\n<!-- {table}: x -->\nOLD TEXT\n<!-- end of {table} -->\nb\n"


@pytest.fixture
def lessons(tmp_path):
    """A folder of lessons in a checkout, each with a README.md whose table is an old one."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "README.md").write_text(page("course"))
    (tmp_path / "README.md").write_text(page("ladder"))
    return folder


def test_tables_are_written_between_their_marks_and_nothing_else_changes(lessons):
    made = readme.pages(lessons)
    for table, path in (("course", lessons / "README.md"), ("ladder", lessons.parent / "README.md")):
        assert "OLD TEXT" not in made[path] and made[path].startswith(f"a\n<!-- {table}: x -->\n")
        assert made[path].endswith(f"<!-- end of {table} -->\nb\n")
        path.write_text(made[path])
    assert all(f"`{rung.name}`" in made[lessons.parent / "README.md"] for rung in LADDER)
    assert all(f"({entry.name}/lesson.ipynb)" in made[lessons / "README.md"] for entry in course.lessons())
    assert readme.pages(lessons) == made


def test_a_page_without_the_marks_is_one_sentence(lessons):
    (lessons / "README.md").write_text("nothing here")
    with pytest.raises(BadData, match="course"):
        readme.pages(lessons)
