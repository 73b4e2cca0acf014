"""`ctrlab bench fleet`, from two exported models to its tables."""

import json
import os

import pytest
from ctrlab.lessons.topics.share_cores.allocation import POLICIES
from ctrlab.lessons.topics.share_cores.curve import ServiceCurve
from typer.testing import CliRunner

from studies.app import app
from studies.fleet import check
from studies.fleet import vary as experiments


@pytest.mark.study
def test_the_command(tmp_path, monkeypatch):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two pools need two CPUs")
    monkeypatch.setattr(check, "UTILIZATIONS", (0.2,))
    monkeypatch.setattr(check, "SETTLED", 0)
    monkeypatch.setattr(check, "REPETITIONS", 1)
    monkeypatch.setattr(experiments, "VARIED", experiments.VARIED[:1])
    monkeypatch.setattr(experiments, "REQUESTS", 500)
    out = tmp_path / "fleet.json"
    arguments = [
        "fleet",
        "deepfm",
        "mmoe",
        "--seconds",
        "1s",
        "--cores",
        "12",
        "--profile",
        "tiny",
        "--json",
        str(out),
    ]
    found = CliRunner(env={"COLUMNS": "160"}).invoke(app, arguments)
    assert found.exit_code == 0, found.output
    assert "2 together" in found.output and "dedicated" in found.output
    written = json.loads(out.read_text())
    curves = {name: ServiceCurve.from_json(curve) for name, curve in written["curves"].items()}
    assert curves.keys() == {"deepfm", "mmoe"} and all(curve.mean(100) > 0 for curve in curves.values())
    assert {each["pools"] for each in written["settings"]} == {"2 together", "1 each"}
    assert all(each["requests"] > 0 and each["measured_mean"] > 0 < each["simulated_mean"] for each in written["settings"])
    assert written["experiments"][0]["carried"].keys() == POLICIES.keys()


def test_a_model_that_is_none():
    found = CliRunner().invoke(app, ["fleet", "deepfm", "dine"])
    assert found.exit_code == 1 and "Did you mean 'din'?" in found.output + found.stderr


def test_a_machine_has_a_core_for_each_model():
    """Before anything is measured."""
    found = CliRunner(env={"COLUMNS": "160"}).invoke(app, ["fleet", "--cores", "16", "--profile", "tiny"])
    assert found.exit_code == 1 and "one for each of 16 variants" in found.output
