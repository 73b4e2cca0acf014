"""pyproject.toml, requirements.lock and environment.yml must tell one story."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
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
    assert "make test test-notebooks\n" in (ROOT / ".ci/run").read_text()
    assert all(f"    make {target} " in (ROOT / "README.md").read_text() for target in ("test", "test-notebooks"))
