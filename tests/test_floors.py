"""The house has floors: a module imports from its own package and from floors below, and nothing imports in a circle."""

import graphlib
import re

import pytest

from ctrlab import imports

ROOT = imports.PACKAGE.parent


def floors(page: str) -> list[list[str]]:
    """The packages of each floor, from the ground up, of the figure in CONTRIBUTING.md.

    What lies in ctrlab/ itself is below all of them; packages of one floor don't know each other.
    """
    figure = page.partition("## The house\n")[2].partition("```text\n")[2].partition("```")[0]
    boxes = re.split(r"^  \+-+\+\n", figure, flags=re.M)[1:-1]
    return [re.findall(r"^  \| (\w+)", box, re.M) for box in reversed(boxes)]


FLOORS = floors((ROOT / "CONTRIBUTING.md").read_text())
HEIGHT = {package: height for height, packages in enumerate(FLOORS, 1) for package in packages}


def package_of(module: str) -> str:
    """Its folder in ctrlab; nothing for a module that lies in ctrlab/ itself. `__main__` is a door to the top floor."""
    if module == "ctrlab.__main__":
        return "cli"
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (imports.PACKAGE / parts[1]).is_dir() else ""


def wrong_imports(graph: dict[str, set[str]]) -> list[str]:
    """The imports that go up, or to a neighbour."""
    wrong = []
    for module, others in graph.items():
        here = package_of(module)
        for other in sorted(others):
            there = package_of(other)
            if there != here and HEIGHT.get(there, 0) >= HEIGHT.get(here, 0):
                wrong.append(f"{module} imports {other}")
    return wrong


STUDIES = ROOT / "studies"


@pytest.fixture(scope="module")
def whole() -> dict[str, set[str]]:
    """{module of ctrlab or of the studies: those of both that it imports}."""
    known = imports.modules() | imports.modules(STUDIES)
    return {module: set(imports.imported(module, known)) for module in known}


@pytest.fixture(scope="module")
def graph(whole) -> dict[str, set[str]]:
    """{module: the modules of ctrlab that it imports}."""
    return {module: used for module, used in whole.items() if not is_study(module)}


def is_study(module: str) -> bool:
    return module.partition(".")[0] == "studies"


def test_each_package_has_a_floor_and_each_floor_its_packages(graph):
    assert {package_of(module) for module in graph} - {""} == HEIGHT.keys()


def test_the_figure_is_read_from_the_ground_up():
    page = "## The house\n```text\n above\n  +--+\n  | b  x |\n  | c    |\n  +--+\n  | a  y |\n  +--+\n below\n```\n"
    assert floors(page) == [["a"], ["b", "c"]]


def test_no_import_goes_up(graph):
    assert wrong_imports(graph) == []


def test_nothing_in_the_package_imports_a_study(whole, graph):
    assert any(is_study(module) for module in whole)
    assert [module for module, used in graph.items() if any(map(is_study, used))] == []


def test_no_lesson_imports_a_study():
    """Its tests may; what its cells call lies in its folder or in the package."""
    folder = imports.PACKAGE.parent / "notebooks"
    files = [p for p in folder.rglob("*") if p.suffix in (".py", ".ipynb") and not p.name.startswith("test_")]
    assert files and [p for p in files if re.search(r"(from|import) studies\b", p.read_text(encoding="utf-8"))] == []


def test_a_study_imports_nothing_that_lessons_share(whole):
    """It may import what lies in the folder of one lesson, `ctrlab.lessons.topics.<topic>`, which is no module of the package."""
    studies = {module: used for module, used in whole.items() if is_study(module)}
    assert [module for module, used in studies.items() if any(package_of(other) == "lessons" for other in used)] == []


def test_no_imports_in_a_circle(whole):
    graphlib.TopologicalSorter(whole).prepare()  # raises CycleError, which names the modules of a circle


def test_lessons_are_imported_by_the_two_commands_that_show_them_alone(graph):
    others = {m: used for m, used in graph.items() if package_of(m) != "lessons"}
    users = {m for m, used in others.items() if any(package_of(other) == "lessons" for other in used)}
    assert users == {"ctrlab.cli.doctor", "ctrlab.cli.lab"}


def test_a_wrong_import_is_found():
    graph = {"ctrlab.data.csv": {"ctrlab.ops.lookup"}, "ctrlab.race.runner": {"ctrlab.cuda.cases", "ctrlab.models"}}
    assert wrong_imports(graph) == ["ctrlab.data.csv imports ctrlab.ops.lookup", "ctrlab.race.runner imports ctrlab.cuda.cases"]
    assert wrong_imports({"ctrlab.errors": {"ctrlab.profiling"}}) == ["ctrlab.errors imports ctrlab.profiling"]


def test_imports_are_read_from_the_source(tmp_path):
    root = tmp_path / "ctrlab"
    (root / "data").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "a.py": "import os\nfrom ctrlab import b\n",
        "b.py": "def late():\n    from ctrlab.data import d, Name\n",
        "c.py": "import ctrlab.a\nif TYPE_CHECKING:\n    import ctrlab.b\n",
        "data/__init__.py": "from .d import x\n",
        "data/d.py": "",
    }.items():
        (root / name).write_text(text)
    known = imports.modules(root)
    assert list(known) == ["ctrlab", "ctrlab.a", "ctrlab.b", "ctrlab.c", "ctrlab.data", "ctrlab.data.d"]
    assert imports.imported("ctrlab.b", known) == {"ctrlab.data.d", "ctrlab.data"}
    assert imports.imported("ctrlab.data", known) == {"ctrlab.data.d"}
    assert imports.used("ctrlab.c", known=known) == ["ctrlab.a", "ctrlab.b", "ctrlab.c", "ctrlab.data", "ctrlab.data.d"]
