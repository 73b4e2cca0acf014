"""The search finds the peak it can see, keeps TensorFlow's own where noise hides it, and stops when its time is spent."""

import sys
from pathlib import Path

import pytest

from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.training import threads, tune_worker
from ctrlab.training import tune as module
from ctrlab.training.threads import Setting, choose_setting, stored
from ctrlab.training.tune import thread_settings, tune
from tests import forked

FAKE = (sys.executable, str(Path(__file__).with_name("fake_tune_worker.py")))


@pytest.fixture(autouse=True)
def two_cores(tmp_path, monkeypatch):
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path))
    for place in (threads, module):
        monkeypatch.setattr(place, "cores", lambda: 2)


def test_the_grid_begins_with_tensorflows_own():
    for count in (1, 2, 3, 8, 12):
        settings = thread_settings(count)
        assert settings[0] == Setting(count, count)
        assert len(set(settings)) == len(settings)
        assert max(s.intra for s in settings) == 2 ** ((2 * count).bit_length() - 1) and min(s.inter for s in settings) == 1


def test_it_finds_the_peak_and_keeps_it():
    told = []
    found = tune("wdl", "threads,stage", budget=60, watch=lambda what, share: told.append((what, share)), command=FAKE)
    assert found.best == Setting(1, 2, 2, 4) and not found.is_own
    assert len(found.threads) == 9 and len(found.buffers) == 20
    surface = found.surface("threads")
    assert surface[1, 2].median == pytest.approx(1.5 / 1.2) and surface[2, 2].median == 1.0
    assert found.surface("buffers")[2, 4].median == pytest.approx(1.1) and found.chosen("buffers") == (2, 4)
    assert stored()["wdl"]["setting"] == {"intra": 1, "inter": 2, "prefetch": 2, "stage": 4}
    assert choose_setting("wdl", found.rungs).setting == found.best
    assert len(told) == 8 + 1 + 19 + 1 and all(0 <= share <= 1 for _, share in told)


def test_without_the_rung_nothing_is_staged():
    found = tune("wdl", "none", budget=60, command=FAKE, keep=False)
    assert {p.setting.stage for p in found.buffers} == {0} and found.best == Setting(1, 2)
    assert stored() == {}


def test_noise_hides_the_peak(monkeypatch):
    monkeypatch.setenv("FAKE_NOISE", "3")
    assert tune("wdl", "none", budget=60, command=FAKE).is_own


def test_what_a_second_race_does_not_confirm_was_luck():
    own, lucky, sure = (module.Point(Setting(i), (m - 0.1, m, m, m, m, m + 0.1)) for i, m in ((2, 1.0), (4, 1.5), (1, 1.2)))
    raced = []

    def race(setting):
        raced.append(setting)
        return own.pairs if setting == lucky.setting else sure.pairs

    assert module._best([own, lucky, sure], race) == sure.setting and raced == [lucky.setting, sure.setting]
    assert module._best([own, lucky], race) == own.setting
    assert module._best([own], race) == own.setting


def test_it_stops_when_its_time_is_spent(monkeypatch):
    monkeypatch.setenv("FAKE_SLOW", "0.3")
    found = tune("wdl", "threads,stage", budget=3, command=FAKE)
    assert 2 <= len(found.threads) < 9


def test_a_worker_that_dies_is_one_sentence(monkeypatch):
    monkeypatch.setenv("FAKE_DIES", "1")
    with pytest.raises(CtrlabError, match=r"wdl with 1 x 1 threads ended .* out of memory"):
        tune("wdl", "none", budget=60, command=FAKE)
    with pytest.raises(CtrlabError, match="no such rows"):
        tune("dlrm", "none", budget=60, command=FAKE)
    with pytest.raises(UnknownName):
        tune("wdl", "threats", command=FAKE)


def test_the_real_worker(tmp_path):
    """Runs in a separate process, because this one's threads are fixed."""
    code = """
import sys
from ctrlab.training.tune_worker import Session
from ctrlab.profiling.machine import machine
session = Session("wdl", ["indicator"], "tiny", 1, 2)
assert session.open() == {} and machine().threads == 1
for depth in (0, 2, 2):
    assert session.train(3, 1, depth)["seconds"] > 0
assert set(session.readers) == {(1, 0), (1, 2)}
"""
    ran = forked.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr
    assert tune_worker.WARM_UP_STEPS > 0
