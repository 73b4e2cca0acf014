"""pyproject.toml, requirements.lock and environment.yml must tell one story."""

import ast
import functools
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ctrlab import imports
from ctrlab.profiling import workbook

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
LAB, SERVE, RAY = ({canonicalize_name(Requirement(text).name) for text in EXTRAS[extra]} for extra in ("lab", "serve", "ray"))
FOREIGN = (
    "ctrlab.cuda",
    "ctrlab.server.bench.stock_server",
)
"""They run in the environments of other libraries."""
SERVER = ("ctrlab.server", "ctrlab.cli.serve")
"""They need the extra `serve`."""
WORKBOOK = ("ctrlab.lessons", "ctrlab.profiling.charts", "ctrlab.race.figures")
LOCK_LINES = (ROOT / "requirements.lock").read_text().splitlines()


def locked() -> dict[str, Version]:
    pairs = (line.split("==") for line in LOCK_LINES)
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def disagreements(requirements: list[str], pins: dict[str, Version]) -> list[str]:
    """Requirements that the pins leave out or break."""
    odd = []
    for text in requirements:
        requirement = Requirement(text)
        pin = pins.get(canonicalize_name(requirement.name))
        if pin is None or pin not in requirement.specifier:
            odd.append(f"{text}: locked {pin}")
    return odd


def all_requirements() -> list[str]:
    project = PROJECT["project"]
    extras = [r for extra in project["optional-dependencies"].values() for r in extra]
    return project["dependencies"] + extras + PROJECT["build-system"]["requires"]


def test_lock_holds_only_pins():
    assert [line for line in LOCK_LINES if not re.fullmatch(r"[A-Za-z0-9_.\-]+==[A-Za-z0-9_.+!]+", line)] == []


def test_lock_meets_every_range():
    assert disagreements(all_requirements(), locked()) == []


@pytest.mark.parametrize("wrong", ["tensorflow<2.0", "no-such-package"])
def test_the_comparison_notices(wrong):
    assert disagreements([wrong], locked()) != []


def test_conda_takes_the_lock_and_the_same_python():
    text = (ROOT / "environment.yml").read_text()
    assert "-r requirements.lock" in text
    assert f"python{PROJECT['project']['requires-python']}" in text


def test_ci_calls_the_readme_s_test_command():
    assert (ROOT / ".ci/run").read_text().endswith("\nmake test-all\n")
    assert "    make test-all " in (ROOT / "README.md").read_text()


def modules(*left_out: str) -> dict[str, Path]:
    """Those of ctrlab that a server has use for."""
    return {name: path for name, path in imports.modules().items() if not any(f"{name}.".startswith(f"{p}.") for p in left_out)}


def test_a_server_imports_nothing_of_the_extra_lab():
    names = [name for name in modules(*WORKBOOK, *FOREIGN) if not name.endswith("__main__")]
    code = f"""
import importlib, json, sys
sys.modules.update(dict.fromkeys({workbook.MODULES!r}))
failed = {{}}
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ImportError as problem:
        failed[name] = str(problem)
from ctrlab.profiling import doctor
report = doctor.examine(quick=True)
print(json.dumps([failed, report.healthy, [f.found for f in report.findings if f.name == "workbook"]]))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert found.returncode == 0, found.stderr
    failed, healthy, [said] = json.loads(found.stdout.splitlines()[-1])
    assert failed == {} and not healthy and said == f"{', '.join(workbook.MODULES)} not installed"


def test_the_workbook_asks_for_what_the_extra_lab_installs():
    assert set().union(*map(distributions, workbook.MODULES)) == LAB


def test_dependencies_are_what_the_package_imports():
    needed, late = set(), set()
    for path in modules(*WORKBOOK, *FOREIGN, *SERVER).values():
        tree = ast.parse(path.read_text())
        at_once, all_of_them = third_party(tree.body), third_party(ast.walk(tree))
        needed |= at_once
        late |= all_of_them - at_once
    declared = {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]}
    assert (needed | late) - declared - LAB == RAY and not needed & (LAB | RAY)
    assert declared <= needed | late


def test_the_extra_serve_is_what_the_server_imports():
    server = modules(*WORKBOOK, *FOREIGN).keys() - modules(*WORKBOOK, *FOREIGN, *SERVER).keys()
    needed = set().union(*(third_party(ast.walk(ast.parse(imports.modules()[name].read_text()))) for name in server))
    declared = {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]}
    assert needed - declared == SERVE


def third_party(nodes) -> set[str]:
    """The distributions that imports among `nodes` come from."""
    imported = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add(node.module.partition(".")[0])
    return set().union(*map(distributions, imported - sys.stdlib_module_names - {"ctrlab"}))


def distributions(module: str) -> set[str]:
    return {canonicalize_name(name) for name in _installed()[module]}


@functools.cache
def _installed() -> dict[str, list[str]]:
    return metadata.packages_distributions()
