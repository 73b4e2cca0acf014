import functools
import json
import sys
from pathlib import Path

import pytest

from ctrlab import profiles
from ctrlab.profiling.work import Ceilings
from ctrlab.race import runner

FAKE_COMMAND = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))
CEILINGS = Ceilings(sgemm=1e11, bf16=1e11, stream=1e10, stream_one_thread=1e10, random_rows=1e7, sigmoids=1e9, device="fake")


@pytest.fixture
def fake(monkeypatch, tmp_path_factory):
    """fake(die=[...]) makes the fake workers misbehave; see fake_worker.py."""

    def misbehave(**how):
        monkeypatch.setenv("FAKE_WORKER", json.dumps(how))

    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path_factory.mktemp("cache")))  # no AUCs are there from another test
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", root)
    misbehave()
    return misbehave


@pytest.fixture
def plan():
    return runner.Plan(("wdl", "deepfm", "dlrm"), ("none", "all"), profiles.PROFILES["tiny"], "generated")


@pytest.fixture
def run(tmp_path):
    """run(plan, ...) races with fake workers; the state lies in tmp_path / "race.json"."""

    def race(plan, resume=False, watch=lambda *args: None, on_model=lambda result: None, ceilings=CEILINGS):
        state = tmp_path / "race.json"
        return runner.race(plan, runner.begin(plan, state, resume), state, ceilings, watch, on_model, FAKE_COMMAND)

    return race


@pytest.fixture
def fake_race(fake, monkeypatch):
    """Every race runs with fake workers, on no data."""
    monkeypatch.setattr(runner, "prepare", lambda plan: CEILINGS)
    monkeypatch.setattr(runner, "race", functools.partial(runner.race, command=FAKE_COMMAND))
