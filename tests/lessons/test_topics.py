"""A lesson's modules are found under a name of its own in any process, and no lesson knows another."""

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from ctrlab.lessons.topics.start_here import figures
from nbformat import v4

from ctrlab.errors import CtrlabError
from ctrlab.imports import PACKAGE
from ctrlab.lessons import notebook, places, topics

FOLDERS = places.folders()
SHARED = 4_500
"""Lines of Python that lessons may share."""


def imported(folder: Path) -> set[str]:
    """The modules that a lesson's files and its notebook's cells import."""
    sources = [path.read_text() for path in folder.glob("*.py")]
    cells = notebook.read(folder / "lesson.ipynb").cells
    code = [cell.source for cell in cells if cell.cell_type == "code" and not cell.source.startswith("%%")]
    sources += ["\n".join(line for line in text.splitlines() if not line.startswith("%")) for text in code]
    found = set()
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names}
    return found


def neighbours(topic: str, modules: set[str]) -> set[str]:
    """Those that are another lesson's."""
    return {m for m in modules if m.startswith(f"{topics.__name__}.") and m.split(".")[3] != topic}


@pytest.mark.parametrize("topic", FOLDERS)
def test_a_lesson_imports_no_neighbour(topic):
    assert neighbours(topic, imported(FOLDERS[topic])) == set()


def test_a_neighbour_is_found(tmp_path):
    nb = v4.new_notebook(cells=[v4.new_code_cell("%time\nimport os")])
    (tmp_path / "lesson.ipynb").write_text(notebook.dumps(nb))
    (tmp_path / "checks.py").write_text(
        "def f():\n    from ctrlab.lessons.topics.own import a\n    import ctrlab.lessons.topics.other.b"
    )
    assert neighbours("own", imported(tmp_path)) == {"ctrlab.lessons.topics.other.b"}


def test_two_lessons_of_one_topic_are_refused(tmp_path, monkeypatch):
    for folder in ("01_part/01_same", "02_part/07_same"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "lesson.ipynb").touch()
    monkeypatch.setattr(places, "notebooks", lambda: tmp_path)
    with pytest.raises(CtrlabError, match="topics"):
        places.folders()


def test_a_fresh_process_finds_what_another_pickled():
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).__doc__)"
    function = next(f for name, f in vars(figures).items() if getattr(f, "__module__", "") == figures.__name__)
    ran = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(function), capture_output=True, check=True)
    assert ran.stdout.decode().strip() == str(function.__doc__).strip()


def test_a_lesson_without_a_file_has_no_such_module():
    assert topics.module("02_ops/01_indicator_column", "nothing") is None
    assert topics.module("02_ops/99_no_lesson", "checks") is None


def test_what_lessons_share_stays_small():
    lines = {path: len(path.read_text().splitlines()) for path in (PACKAGE / "lessons").rglob("*.py")}
    assert sum(lines.values()) <= SHARED, sorted(lines.items(), key=lambda pair: -pair[1])[:10]
