"""`ctrlab bench NAME` becomes a study's process; without a checkout it says what a study needs."""

import ast
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from ctrlab import cli, imports
from ctrlab.cli.bench.studies import STUDIES
from studies.app import app

ROOT = Path(__file__).parents[2]
CTRLAB = [sys.executable, "-P", "-m", "ctrlab"]


def test_every_study_is_a_command_and_every_command_a_study():
    folders = {path.parent.name.replace("_", "-") for path in (ROOT / "studies").glob("*/command.py")}
    assert STUDIES.keys() == get_command(app).commands.keys() == folders


def test_the_help_has_a_line_for_each():
    found = CliRunner(env={"COLUMNS": "120"}).invoke(cli.app, ["bench", "--help"])
    for name, says in STUDIES.items():
        assert any(name in line and says in line for line in found.output.splitlines()), name


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_s_own_help(name):
    assert f"ctrlab bench {name} " in CliRunner().invoke(app, [name, "--help"], prog_name="ctrlab bench").output


@pytest.mark.parametrize(
    "words", ["checkpoints", "peers", "embedding", "store", "waiting", "freshness", "table-sizes --out sizes.json"]
)
def test_a_study_that_needs_tensorflow_says_so_in_a_sentence(monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    found = CliRunner().invoke(app, words.split())
    assert found.exit_code == 1 and found.stderr.startswith("TensorFlow can't be imported: ")


def test_the_arguments_reach_it_and_its_exit_code_comes_back(tmp_path):
    """It starts from a folder with another `studies`, which is not used; paths are relative to the caller's folder."""
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies/__init__.py").write_text("raise SystemExit(9)")
    (tmp_path / "records").mkdir()
    (tmp_path / "records/fleet.json").write_text("{")

    def run(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run([*CTRLAB, "bench", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120)

    shown = run("published", "--help")
    assert shown.returncode == 0 and "Usage: ctrlab bench published " in shown.stdout
    refused = run("tables", "records")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("A file of records is JSON; records/fleet.json is not")
    wrong = run("peers", "--jsn", "x")
    assert wrong.returncode == 2 and "No such option: --jsn" in wrong.stderr


def test_ctrl_c_ends_it_in_a_word(tmp_path):
    """It is the study's process: nothing stands between it and who started it."""
    page = tmp_path / "page.md"
    os.mkfifo(page)
    words = [*CTRLAB, "bench", "tables", str(tmp_path), "--into", str(page)]

    def heed():  # a shell's background job, in which these tests may run, ignores Ctrl-C, and so would what it starts
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(words, **pipes, text=True, preexec_fn=heed)
    with page.open("w"):  # the study has opened the page, and waits for its text
        arguments = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert arguments[1:5] == ["-P", "-m", "studies", "tables"]
    assert (process.returncode, said.strip()) == (130, "Interrupted.")


def test_without_a_checkout_it_says_what_it_needs(tmp_path):
    """A copy of the package alone, as in a wheel."""
    shutil.copytree(imports.PACKAGE, tmp_path / "ctrlab", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.json"))
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    finders = "sys.meta_path[:] = [f for f in sys.meta_path if 'Redirecting' not in type(f).__name__]"  # to the checkout
    here = f"assert ctrlab.__file__.startswith({str(tmp_path)!r})"
    code = f"import sys; {finders}; import ctrlab; {here}; from ctrlab.cli import main; main()"

    def run(*words: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-P", "-c", code, "bench", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    found = run("peers", "lookup")
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (1, "", 1), found.stderr
    assert found.stderr.startswith("`ctrlab bench peers` comes with a checkout of the repository")
    shown = run("--help").stdout
    assert all(name in shown for name in STUDIES)


def test_only_the_package_is_installed():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    assert build["wheel"]["packages"] == ["ctrlab"]


def test_no_study_is_named_in_a_string_of_the_package():
    """A module that is started by its name is imported, too."""
    names = {module for module in imports.modules(ROOT / "studies")}
    for module, path in imports.modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Constant) and node.value in names - {"studies"}), module
