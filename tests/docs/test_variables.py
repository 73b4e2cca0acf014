"""README.md's table of environment variables is what the code reads."""

import ast
import re
from pathlib import Path

from ctrlab import imports

ROOT = Path(__file__).parents[2]


def read_by(source: str) -> set[str]:
    """The names of our environment variables that are whole strings in Python code."""
    texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {text for text in texts if isinstance(text, str) and re.fullmatch(r"CTRLAB_[A-Z_]+", text)}


def read_by_code() -> set[str]:
    python = [*imports.modules().values(), *(ROOT / "tests").rglob("*.py")]
    found = set().union(*(read_by(path.read_text()) for path in python if path != Path(__file__)))
    native = "".join(
        path.read_text() for path in (ROOT / "native").rglob("*") if path.suffix in {".cc", ".h", ".c", ".cu", ".cuh"}
    )
    names_of_c = set(re.findall(r"\bCTRLAB_[A-Z_]+\b", native))  # tests of the C interfaces have those in strings
    return found - names_of_c | set(re.findall(r'getenv\(\s*"(CTRLAB_\w+)"', native))


def test_the_table_has_each_variable_that_the_code_reads_and_no_other():
    named = re.findall(r"^\| `(CTRLAB_\w+)` \|", (ROOT / "README.md").read_text(), re.M)
    assert named == sorted(read_by_code())


def test_a_variable_is_found_however_it_is_read():
    assert read_by('import os\nNAME = "CTRLAB_NEW"\nos.environ[NAME]\n"set CTRLAB_CACHE"') == {"CTRLAB_NEW"}
