"""Each peer's own environment: made once, or a sentence why not."""

import dataclasses
import subprocess
import sys

import pytest

from ctrlab.errors import CtrlabError
from ctrlab.profiling import environments as making
from ctrlab.profiling.environments import Environment
from studies.peers import environments
from studies.peers.environments import OURS, PEERS, Peer


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def pip(monkeypatch):
    """The pip commands that were run; `pip.answer` is what they come to."""

    class Pip(list):
        answer = subprocess.CompletedProcess([], 0, "", "")

    ran = Pip()
    monkeypatch.setattr(making.venv, "create", lambda folder, with_pip: folder.mkdir(parents=True))
    monkeypatch.setattr(making.subprocess, "run", lambda command, **options: (ran.append(command), ran.answer)[1])
    return ran


ONE = Environment("some", ("one==1.0", "two==2.0"), ("bare==3.0",))
PEER = Peer("some", "some.worker", ("lookup",), ONE)


def test_an_environment_is_made_once(pip, cache):
    assert not ONE.installed
    first, second = environments.command(PEER), environments.command(PEER)
    assert first == second and first[0].startswith(str(cache / "peers" / "some-"))
    assert [command[-2:] for command in pip] == [["one==1.0", "two==2.0"], ["--no-deps", "bare==3.0"]]
    assert ONE.installed


def test_other_versions_are_another_environment():
    other = dataclasses.replace(ONE, requirements=("one==1.1", "two==2.0"))
    moved = dataclasses.replace(ONE, requirements=("one==1.0",), bare=("two==2.0", "bare==3.0"))
    assert len({each.folder for each in (ONE, other, moved)}) == 3


def test_what_pip_says_is_the_reason(pip):
    pip.answer = subprocess.CompletedProcess([], 1, "", "noise\nERROR: No matching distribution found for one==1.0\nmore\n")
    with pytest.raises(CtrlabError, match=r"^pip could not install some: No matching distribution found for one==1.0$"):
        environments.command(PEER)
    assert not ONE.installed
    pip.answer = subprocess.CompletedProcess([], 0, "", "")
    environments.command(PEER)  # what the failure has left is no obstacle
    assert ONE.installed


def test_a_peer_that_needs_nothing_runs_in_our_own_python():
    assert environments.command(OURS)[0] == sys.executable


def test_no_onednn_is_a_sentence(monkeypatch):
    monkeypatch.setattr("ctrlab.ops.benches.onednn.program", lambda: None)
    with pytest.raises(CtrlabError, match="libdnnl-dev"):
        environments.command(PEERS["onednn"])


def test_every_peer_has_cases_that_we_have():
    for peer in PEERS.values():
        assert peer.kinds and set(peer.kinds) <= set(OURS.kinds)
