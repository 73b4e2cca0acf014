"""The examples of README.md and the guides run, each page's Python in a separate process; and their links have targets."""

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pages
import pytest
from pages import PAGES, ROOT

from tests import forked

sys.path.insert(0, str(ROOT / "docs" / "extensions"))
import reference

SMALLER = {"docs/own_data.md": ("ROWS, USERS, ITEMS = 30_000, ", "ROWS, USERS, ITEMS = 3_000, ")}
"""A page's number of rows, and the one that it runs with here."""
THEN = {"README.md": "assert 0 < server.rows() == table.rows()\n"}
"""Conditions that must be true at the end of a page."""
LINKED = [
    *PAGES.values(),
    *(ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "data/README.md", "notebooks/README.md")),
]


def run(code: str, name: str, folder: Path) -> subprocess.CompletedProcess:
    """Runs code in a process of its own, in `folder`, at profile `tiny`."""
    program = folder / name
    program.write_text(code)
    environment = os.environ | {"CTRLAB_PROFILE": "tiny", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return forked.run([sys.executable, program.name], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page, tmp_path):
    code = pages.python(PAGES[page].read_text())
    if page in SMALLER:
        shown, taken = SMALLER[page]
        assert code.count(shown) == 1
        code = code.replace(shown, taken)
    if code.strip():
        ran = run(code + THEN.get(page, ""), "page.py", tmp_path)
        assert ran.returncode == 0, ran.stderr[-3_000:]


def test_a_page_whose_python_fails_names_the_line(tmp_path):
    code = pages.python("# A page\n\n```python\nx = 1\n```\n\ntext\n\n```python\nassert x == 2\n```\n")
    ran = run(code, "page.py", tmp_path)
    assert ran.returncode == 1 and "line 10" in ran.stderr and "assert x == 2" in ran.stderr


@pytest.mark.parametrize("page", PAGES)
def test_each_block_is_python_or_commands_or_what_they_print(page):
    known = ("python", *pages.SHELL, pages.OUTPUT)
    assert [block for block in pages.blocks(PAGES[page].read_text()) if block.language not in known] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_takes_what_the_reference_describes(page):
    assert hidden(pages.python(PAGES[page].read_text())) == []


def test_a_name_that_is_not_in_the_reference_is_found():
    good = "from ctrlab.ops import lookup\nfrom ctrlab.ops.lookup import fused\n"
    code = good + "from ctrlab.training.run import Run\nimport ctrlab.embedding.formats.crc"
    assert hidden(code) == ["ctrlab.training.run.Run", "ctrlab.embedding.formats.crc"]


def hidden(code: str) -> list[str]:
    """The names that code imports from ctrlab, and that are not public."""
    packages = reference.public()
    modules = {f"{p}.{name}" for p, names in packages.items() for name, value in names.items() if inspect.ismodule(value)}
    known = {*packages, *modules, *(f"{package}.{name}" for package, names in packages.items() for name in names)}
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name not in known]
        elif isinstance(node, ast.ImportFrom) and node.module not in modules:
            found += [f"{node.module}.{alias.name}" for alias in node.names if f"{node.module}.{alias.name}" not in known]
    return [name for name in found if name.partition(".")[0] == "ctrlab"]


@pytest.mark.parametrize("page", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page):
    assert dead(page.read_text(), page) == []


def test_a_dead_link_is_found():
    good = "# Here\n[a](#here) [b](Makefile) [c](https://example.org) [d](README.md#the-ladder) "
    text = good + "[e](#there) [f](nowhere.md) ![g](none.png) [h](README.md#no-ladder)"
    assert dead(text, ROOT / "page.md") == ["#there", "nowhere.md", "none.png", "README.md#no-ladder"]


def dead(text: str, page: Path) -> list[str]:
    """The links of a page to files and headings that are not there."""
    found = []
    for link in pages.links(text):
        path, _, heading = link.partition("#")
        target = page.parent / path
        if "://" in link:
            continue
        if (path and not target.exists()) or (heading and heading not in pages.anchors(target.read_text() if path else text)):
            found.append(link)
    return found
