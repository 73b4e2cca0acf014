"""The command line: help that reads well and is quick, names that are nearly right, errors in one sentence."""

import os
import signal
import subprocess
import sys
import textwrap
from importlib import metadata

import pytest
from typer.testing import CliRunner

import ctrlab
from ctrlab import cli, profiles
from ctrlab.cli.app import console, import_tensorflow
from ctrlab.errors import CtrlabError, UnknownName, choose

COMMANDS = ["doctor", "data", "train", "checkpoints", "embedding", "race", "tune", "bench", "lab"]


@pytest.fixture
def call():
    """call(*arguments) runs a command in this process; its result has exit_code, stdout, stderr and output."""
    return lambda *arguments: CliRunner(env={"COLUMNS": "120"}).invoke(cli.app, [str(a) for a in arguments])


def test_help_names_every_command(call):
    found = call("--help")
    assert found.exit_code == 0
    for command in COMMANDS:
        assert command in found.output


@pytest.mark.parametrize(
    "path",
    [
        ["race"],
        ["train"],
        ["data", "generate"],
        ["data", "convert"],
        ["bench", "ops"],
        ["bench", "serving"],
        ["checkpoints", "merge"],
        ["checkpoints", "merge-deltas"],
        ["embedding", "analyze"],
        ["embedding", "salvage"],
    ],
)
def test_help_of_a_command_shows_how_to_call_it(call, path):
    found = call(*path, "--help")
    assert found.exit_code == 0
    assert f"ctrlab {' '.join(path)} " in found.output


@pytest.mark.parametrize("path", ["", "race", "data", "bench", "checkpoints", "embedding"])
def test_help_imports_nothing_heavy(path):
    code = textwrap.dedent(
        f"""
        import sys
        from ctrlab import cli, profiles
        try:
            cli.app([*{path.split()}, "--help"])
        except SystemExit:
            pass
        heavy = {{"tensorflow", "keras", "numpy", "pyarrow", "plotly", "sklearn"}} & set(sys.modules)
        sys.exit(f"imported {{heavy}}" if heavy else 0)
        """
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stderr


def test_the_version_is_that_of_the_package_and_of_tensorflow(call):
    found = call("--version")
    assert found.exit_code == 0
    assert found.output == f"ctrlab {ctrlab.__version__}, TensorFlow {metadata.version('tensorflow')}\n"


def test_the_package_s_version_is_its_distribution_s():
    assert ctrlab.__version__ == metadata.version("ctrlab")


def test_the_version_without_tensorflow(call, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert call("--version").output == f"ctrlab {ctrlab.__version__}, without TensorFlow\n"


def test_the_package_runs_as_the_command():
    found = subprocess.run([sys.executable, "-m", "ctrlab", "rase"], capture_output=True, text=True, timeout=60)
    assert found.returncode == 2 and "Usage: ctrlab " in found.stderr and "race" in found.stderr


@pytest.mark.parametrize(
    ("name", "hint"),
    [("lokup", " Did you mean 'lookup'?"), ("LOOKUP", " Did you mean 'lookup'?"), ("userid", " Did you mean 'UserId'?")]
    + [("use", " Did you mean 'UserId'?")]
    + [(far, "") for far in ("foo", "x", "")],
)
def test_a_name_that_is_near_gets_a_hint_and_one_that_is_not_the_list_alone(name, hint):
    with pytest.raises(UnknownName) as refused:
        choose("rung", name, ["lookup", "loop", "UserId"])
    assert str(refused.value) == f"Unknown rung {name!r}; known are lookup, loop, UserId.{hint}"


def test_no_command_is_help(call):
    assert "Usage" in call().output


def test_a_nearly_right_command_is_named(call):
    found = call("rase")
    assert found.exit_code != 0
    assert "race" in found.output


@pytest.mark.parametrize(
    ("problem", "code", "says"),
    [
        (CtrlabError("The rule; what came."), 1, "The rule; what came."),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (KeyboardInterrupt("Interrupted: 2 are kept."), 130, "2 are kept"),
        (OSError(28, "No space left on device", "/there"), 1, "The disk is full (/there). Free some space"),
        (OSError(24, "Too many open files", "/there"), 1, "a process may have (/there). Ask for fewer, or raise `ulimit -n`"),
        (PermissionError(13, "Permission denied", "/there"), 1, "Permission denied (/there)"),
    ],
)
def test_what_a_user_can_mend_is_one_sentence(call, monkeypatch, problem, code, says):
    from ctrlab.race import runner

    def fail(*args):
        raise problem

    monkeypatch.setattr(runner, "begin", fail)
    found = call("race")
    assert found.exit_code == code
    assert says in found.stderr
    assert "Traceback" not in found.output and not found.stdout


def test_an_end_by_sigterm_leaves_no_file(call, monkeypatch, tmp_path):
    from ctrlab import data

    made = data.generate

    def killed(*arguments):
        yield from made(*arguments)
        assert [path.suffix for path in tmp_path.iterdir()] == [".partial"]
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(data, "generate", killed)
    before = signal.getsignal(signal.SIGTERM)
    found = call("data", "generate", "criteo", "--rows", "10", "--out", tmp_path / "c.parquet")
    assert (found.exit_code, found.stderr) == (143, "Terminated.\n") and not found.stdout
    assert not list(tmp_path.iterdir()) and signal.getsignal(signal.SIGTERM) is before


def test_a_launcher_s_sigterm_does_not_cut_off_the_tidying_after_ctrl_c(call, monkeypatch, tmp_path):
    from ctrlab import data

    tidied = []

    def interrupted(*_):
        try:
            yield from ()
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            tidied.append(True)

    monkeypatch.setattr(data, "generate", interrupted)
    before = signal.getsignal(signal.SIGINT)
    found = call("data", "generate", "criteo", "--rows", "10", "--out", tmp_path / "c.parquet")
    assert (found.exit_code, found.stderr, tidied) == (130, "Interrupted.\n", [True])
    assert not list(tmp_path.iterdir()) and signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_inside_a_library_is_no_stack_trace(call, monkeypatch, tmp_path):
    from ctrlab import data

    def interrupted(*_):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("MISMATCH of exceptions: ORIGINAL UnavailableError REPLACED BY KeyboardInterrupt") from None

    monkeypatch.setattr(data, "generate", interrupted)
    found = call("data", "generate", "criteo", "--rows", "10", "--out", tmp_path / "c.parquet")
    assert (found.exit_code, found.stderr) == (143, "Terminated.\n")


def test_what_a_killed_process_left_beside_its_file_goes_with_the_next(call, tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    others = {f".d.csv.{ended.pid}.partial", f".c[1].csv.{os.getppid()}.partial", f".c[1].csv.rejects.tsv.{ended.pid}.partial"}
    for name in (f".c[1].csv.{ended.pid}.partial", *others):
        (tmp_path / name).touch()
    assert call("data", "generate", "criteo", "--rows", "10", "--out", tmp_path / "c[1].csv").exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"c[1].csv", *others}


def test_our_own_mistakes_are_not_hidden(call, monkeypatch):
    from ctrlab.race import runner

    def fail(*args):
        raise AttributeError("a bug")

    monkeypatch.setattr(runner, "begin", fail)
    assert isinstance(call("race").exception, AttributeError)


def test_an_empty_variable_is_as_none(monkeypatch):
    monkeypatch.setenv("CTRLAB_PROFILE", "")
    assert profiles.current().name == "lesson"


def test_list_of_data_sets(call):
    found = call("data", "list")
    assert found.exit_code == 0
    for name in ("criteo", "food_delivery", "amazon_reviews", "rees46", "taobao", "census_income"):
        assert name in found.stdout


@pytest.mark.parametrize("name", ["rows.csv", "rows.tfrecord", "rows.parquet"])
def test_a_file_of_rows_is_what_its_ending_says(call, tmp_path, name):
    from ctrlab import data

    path = tmp_path / name
    assert call("data", "generate", "criteo", "--rows", 8, "--out", path).exit_code == 0
    [(_, labels)] = data.read(path, data.schema("criteo"), batch_size=8)
    assert labels.shape == (8, 1)


def test_an_ending_that_says_nothing_is_refused(call, tmp_path):
    found = call("data", "generate", "criteo", "--rows", 8, "--out", tmp_path / "rows.foo")
    assert found.exit_code == 1 and "which say its format" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_resume_is_said_in_a_line(call, tmp_path, monkeypatch):
    from ctrlab.race import runner

    def stop(*args):
        raise CtrlabError("far enough")

    monkeypatch.setattr(runner, "prepare", stop)
    found = call("race", "--profile", "tiny", "--json", tmp_path / "race.json", "--resume")
    assert "begins anew" in found.stdout and "far enough" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_output_to_a_file_has_100_columns_unless_told_otherwise(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console().width == 100
    monkeypatch.setenv("COLUMNS", "0")
    assert console().width == 100
    monkeypatch.setenv("COLUMNS", "64")
    assert console().width == 64
    console().print("word " * 20)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 64


def test_the_workbook_without_its_packages_is_one_sentence(call, monkeypatch):
    for name in ("jupyterlab", "plotly"):
        monkeypatch.setitem(sys.modules, name, None)
    for arguments in (["lab"], ["lab", "--progress"]):
        found = call(*arguments)
        assert found.exit_code == 1 and found.stdout == ""
        assert found.stderr == (
            'The workbook needs packages that are not installed (jupyterlab, plotly): pip install "ctrlab[lab]".\n'
        )


def test_a_tensorflow_that_can_t_be_imported_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(CtrlabError, match=r"^TensorFlow can't be imported: .*tensorflow.*`ctrlab doctor` says"):
        import_tensorflow()


@pytest.mark.parametrize(
    "command",
    [
        "train wdl",
        "train wdl --embedding variable --admission 2",
        "tune wdl",
        "race --models wdl --profile tiny --json race.json",
        "checkpoints merge run out",
        "checkpoints merge-deltas one two --out out",
        "bench ops",
        "bench input",
    ],
)
def test_each_command_that_needs_tensorflow_says_that_sentence(call, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    found = call(*command.split())
    assert found.exit_code == 1 and "Traceback" not in found.output
    assert found.stderr.startswith("TensorFlow can't be imported: ")


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.tfrecord", "rows.tfrecord.gz", "rows.parquet"])
def test_a_converted_file_is_what_its_ending_says(call, tmp_path, name):
    from ctrlab import data

    (tmp_path / "train.txt").write_text("\t".join(["1", *["3"] * 13, *["ab"] * 26]) + "\n")
    assert call("data", "convert", "criteo", tmp_path / "train.txt", "--out", tmp_path / name).exit_code == 0
    [(features, labels)] = data.read(tmp_path / name, data.schema("criteo"), batch_size=8)
    assert labels.numpy().tolist() == [[1.0]] and features["C26"].numpy().tolist() == [b"ab"]
    found = call("data", "convert", "criteo", tmp_path / "train.txt", "--out", tmp_path / "rows.foo")
    assert found.exit_code == 1 and "give it one of these endings" in found.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"train.txt", name}


def test_rows_of_real_data_that_are_left_out_are_told(call, tmp_path, monkeypatch):
    (tmp_path / "criteo_kaggle").mkdir()
    good = "\t".join(["1", *["3"] * 13, *["ab"] * 26])
    lines = [good.replace("1", str(i % 2), 1) for i in range(1_400)]
    (tmp_path / "criteo_kaggle" / "train.tsv").write_text("\n".join([*lines, "no row"]) + "\n")
    monkeypatch.setenv("CTRLAB_REAL_DATA", str(tmp_path))
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path / "cache"))
    found = call("train", "deepfm", "--data", "real", "--profile", "tiny")
    assert found.exit_code == 0, found.output
    assert f"1 raw rows are left out, each with its reason in {tmp_path / 'cache'}" in found.stdout.replace("\n", "")
