"""The doctor, on this machine and on sick ones."""

import functools
import json
import subprocess

import pytest
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.errors import CtrlabError
from ctrlab.profiling import doctor, workbook
from ctrlab.profiling.doctor import Finding, Report


@pytest.fixture(autouse=True)
def forget():
    doctor._tried.cache_clear()
    yield
    doctor._tried.cache_clear()


def ran(monkeypatch, stdout="", stderr="", code=0):
    monkeypatch.setattr(doctor.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], code, stdout, stderr))


def test_looks_at_everything(monkeypatch):
    ran(monkeypatch, json.dumps({"tensorflow": "2.21.0", "native": "/x/_ctrlab.so", "error": ""}))
    monkeypatch.setattr(doctor, "_nvidia_smi", lambda query: [])
    report = doctor.examine()
    names = [f.name for f in report.findings]
    assert names == ["Python", "workbook", "CPU", "memory", "disk", "compiler", "TensorFlow", "compiled library", "GPU", "port"]
    assert all(f.found and f.needed for f in report.findings)
    assert all(f.cure for f in report.findings if f.state != "ok")
    assert report.healthy


def test_a_tensorflow_that_dies_is_a_finding(monkeypatch):
    ran(monkeypatch, stderr="Illegal instruction", code=-4)
    for look in (doctor._tensorflow, doctor._native):
        assert look().state == "missing"
    assert "Illegal instruction" in doctor._tensorflow().found


def test_a_library_that_does_not_load_says_why(monkeypatch):
    ran(monkeypatch, json.dumps({"tensorflow": "2.21.0", "native": "", "error": "built for TensorFlow 2.20"}))
    assert doctor._native().state == "missing" and "2.20" in doctor._native().found


@pytest.mark.parametrize(
    ("tried", "state", "said"),
    [
        ({"gpus": 1, "step": ""}, "ok", "a training step runs on it"),
        ({"gpus": 1, "step": "no kernel"}, "missing", "a step fails: no kernel"),
        ({"gpus": 0, "step": ""}, "absent", "TensorFlow sees none"),
        ({"failure": "it ended with code -4"}, "absent", "TensorFlow sees none"),
    ],
)
def test_a_gpu_who_holds_it_and_whether_a_step_runs_on_it(monkeypatch, tried, state, said):
    answers = {"--query-gpu": "H200, 143771 MiB, 5 MiB\n", "--query-compute-apps": "42, python, 5 MiB\n"}
    monkeypatch.setattr(
        doctor.subprocess,
        "run",
        lambda command, **_: subprocess.CompletedProcess([], 0, answers[command[1].partition("=")[0]], ""),
    )
    monkeypatch.setattr(doctor, "_tried", functools.cache(lambda: tried))
    found = doctor._gpu()
    assert found.state == state and said in found.found and "H200" in found.found and "42, python" in found.found


def test_no_gpu_is_nothing_to_mend_and_still_refuses_a_lesson_that_needs_one(monkeypatch):
    monkeypatch.setattr(doctor, "_nvidia_smi", lambda query: [])
    found = doctor._gpu()
    assert found.state == "absent"
    assert Report((found,)).reasons_against(("tensorflow",)) == []
    assert len(Report((found,)).reasons_against(("gpu",))) == 1


def test_no_compiler_is_a_finding(monkeypatch):
    def none():
        raise CtrlabError("none was found")

    monkeypatch.setattr(doctor, "compiler", none)
    assert doctor._compiler().state == "missing"


def test_what_is_missing_blocks_only_the_lessons_that_need_it():
    report = Report((Finding("compiler", "no g++", "a compiler", "missing", "Install one.", need="compiler"),))
    assert report.reasons_against(("tensorflow",)) == []
    assert report.reasons_against(("compiler",)) == ["compiler: a compiler is needed, no g++. Install one."]
    assert Report((Finding("Python", "3.10", "3.11", "missing", "Get one."),)).reasons_against(()) != []


def test_a_workbook_that_is_not_installed_is_a_finding_and_blocks_every_lesson(monkeypatch):
    monkeypatch.setattr(workbook, "missing", lambda: ["jupyterlab", "plotly"])
    found = doctor._workbook()
    assert found.state == "missing" and found.found == "jupyterlab, plotly not installed"
    (reason,) = Report((found,)).reasons_against(())
    assert reason.endswith('pip install "ctrlab[lab]".')


def test_the_command_prints_all_and_ends_by_whether_all_is_well(monkeypatch):
    sick = Finding("compiler", "[g++]", "a compiler", "missing", "Install one.", need="compiler")
    for report, code in ((Report((sick,)), 1), (Report(()), 0)):
        monkeypatch.setattr(doctor, "examine", lambda report=report: report)
        ran = CliRunner().invoke(cli.app, ["doctor"])
        assert ran.exit_code == code
    monkeypatch.setattr(doctor, "examine", lambda: Report((sick,)))
    said = CliRunner().invoke(cli.app, ["doctor"]).stdout
    assert "[g++]" in said and "Install one." in said
