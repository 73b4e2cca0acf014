"""README.md's tables come from the code, and its Python runs."""

import re
import subprocess
import sys

import pytest

from ctrlab.errors import BadData
from ctrlab.lessons import places, readme
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


def test_what_the_page_shows_in_python_runs_and_brings_the_server_up_to_date(tmp_path):
    """All blocks, one after the other, in one process, at profile `tiny`."""
    page = (places.notebooks().parent / "README.md").read_text()
    code = "".join(re.findall(r"```python\n(.*?)```", page, re.S)).replace('profile="lesson"', 'profile="tiny"')
    code += "assert 0 < server.rows() == table.rows()\n"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2_000:]
