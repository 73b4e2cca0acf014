"""Where variables and ops are, and that answers don't depend on it. `on_two_devices` has the processes."""

import json
import os
import re
import sys

import numpy as np
import pytest

from ctrlab import devices
from ctrlab.cli import train_options
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.model_names import DATA_SETS
from tests import forked

FOLLOWS = {"Identity", "NoOp", "Placeholder", "ReadVariableOp"}
"""Ops without a device: arguments and results of a function, and reads, which are where the variable is."""
CPU, GPU = "CPU:0", "CPU:1"
LOSSES = [0.69351, 0.69433, 0.69585, 0.69650, 0.69576, 0.69470, 0.69526, 0.69704]
"""Of `ctrlab train din --profile tiny` on a machine without a GPU, with any rungs."""


def found(program: str, model: str, folder) -> list[dict]:
    """The lines that `on_two_devices` printed."""
    command = [sys.executable, "-m", "tests.on_two_devices", program, model, folder]
    ran = forked.run(command, capture_output=True, text=True, env=os.environ | {"CTRLAB_PROFILE": "tiny"})
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


def on_the_cpu(steps: dict) -> None:
    assert steps["device"] == "cpu" and steps["eager"] == CPU
    assert {*steps["variables"].values()} == {CPU}
    assert {*steps["ops"]} <= {"", CPU} and {*steps["ops"][""]} <= FOLLOWS


def split(steps: dict) -> None:
    """Only ops of ours are on the CPU, with the variables that they change; all others are TensorFlow's to place."""
    assert steps["device"] == "gpu" and steps["eager"] == GPU and {*steps["ops"]} == {"", CPU}
    names = {name for name in steps["ops"][CPU] if name not in ("Const", "Placeholder")}
    assert all(name.startswith("Ctrlab>") for name in names) and not [n for n in steps["ops"][""] if n.startswith("Ctrlab>")]
    there = {path for path, device in steps["variables"].items() if device != GPU}
    assert there and all(re.search("embedding|linear|wide", path) for path in there)


@pytest.mark.parametrize("model", DATA_SETS)
def test_a_model_is_where_it_was_asked_to_be_and_answers_alike(model, tmp_path):
    [steps] = found("steps", model, tmp_path)
    none, every, apart = steps.values()
    on_the_cpu(every)
    split(apart)
    assert none["device"] == "gpu" and {*none["variables"].values()} == {GPU} and {*none["ops"]} == {""}
    for other in (none, apart):
        np.testing.assert_allclose(other["losses"], every["losses"], rtol=1e-5)
        np.testing.assert_allclose(other["logits"], every["logits"], rtol=1e-5, atol=1e-6)


def test_auto_is_the_cpu_where_something_would_stay_on_it(tmp_path):
    [steps] = found("more_steps", "din", tmp_path)
    stock, none, variable, apart, apart_in_stock = steps.values()
    assert stock["device"] == "gpu" and {*stock["variables"].values()} == {GPU} and {*stock["ops"]} == {""}
    on_the_cpu(none)
    on_the_cpu(variable)
    split(apart)
    split(apart_in_stock)
    np.testing.assert_allclose(apart["losses"], variable["losses"], rtol=1e-5)


def test_every_way_to_an_answer_works_and_gives_the_same(tmp_path):
    doctor, ways = found("entries", "deepfm", tmp_path)
    assert doctor["step"] == doctor["error"] == "" and doctor["gpus"] == 1
    of_ours, own = ways["split"], ways["own"]
    for way in ("loaded", "saved model", "served"):
        np.testing.assert_allclose(of_ours[way], of_ours["p"], atol=1e-5)
    assert of_ours["predicted"] == len(of_ours["p"]) and np.isfinite(of_ours["evaluated"]).all()
    assert own["losses"][1] < own["losses"][0] and sorted(own["variables"].values()) == [CPU, *[GPU] * 4]


@pytest.mark.parametrize("program", ["run_none", "run_all"])
def test_a_run_with_its_saves_and_publications_trains_as_on_one_device(program, tmp_path):
    [run] = found(program, "din", tmp_path)
    assert run["losses"] == pytest.approx(LOSSES, abs=2e-5) and (tmp_path / "published" / "1").is_dir()


def test_numbers_of_a_model_among_the_options_hide_no_gpu(monkeypatch):
    hidden = []
    monkeypatch.setattr(devices, "hide", lambda: hidden.append(True))
    given = dict.fromkeys(("dim", "l2", "batch_norm", "optimizer", "learning_rate", "clip_norm", "batch_size", "units"))
    assert train_options._size_of(given | {"model": "wdl", "size": "small", "dropout": 0.1}).dropout == 0.1 and not hidden


def test_a_gpu_that_can_no_longer_be_hidden_is_one_sentence_and_others_see_it(monkeypatch):
    def refused(*_):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "gpus", lambda: ["GPU:0"])
    monkeypatch.setattr(devices.tf.config, "set_visible_devices", refused)
    with pytest.raises(CtrlabError, match="before TensorFlow runs anything"):
        devices.hide()
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(UnknownName, match="tpu"):
        devices.chosen("tpu", [])
    with pytest.raises(CtrlabError, match="it sees none"):
        devices.chosen("gpu", [])
    assert devices.chosen("auto", []) == devices.chosen("cpu", []) == "cpu"
