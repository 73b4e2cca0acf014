"""README.md's tables come from the code."""

import pytest

from ctrlab.errors import BadData
from ctrlab.lessons import readme
from ctrlab.optimizations import LADDER

PAGE = "a\n<!-- course: x -->\nOLD TEXT\n<!-- end of course -->\nb\n<!-- ladder: y -->\n<!-- end of ladder -->\nc\n"


def test_tables_are_written_between_their_marks_and_nothing_else_changes():
    page = readme.updated(PAGE)
    assert "OLD TEXT" not in page and page.startswith("a\n<!-- course: x -->\n") and page.endswith("<!-- end of ladder -->\nc\n")
    assert all(f"`{rung.name}`" in page for rung in LADDER)
    assert readme.updated(page) == page


def test_a_page_without_the_marks_is_one_sentence():
    with pytest.raises(BadData, match="course"):
        readme.updated("nothing here")
