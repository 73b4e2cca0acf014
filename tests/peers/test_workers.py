"""Real workers on tiny cases: each says what ours says, where it computes the same. One not installed is skipped."""

import dataclasses

import numpy as np
import pytest

from ctrlab.ops.benches import onednn
from ctrlab.peers import cases, environments
from ctrlab.peers.batches import make_batches
from ctrlab.peers.bench import SAME, difference_of
from ctrlab.peers.environments import OURS, PEERS
from ctrlab.profiling.processes import Worker


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """outputs(peer, case name) -> the file with the first outputs, after two steps were timed."""
    folder = tmp_path_factory.mktemp("peers")

    def outputs(peer, name):
        case = cases.case_of(name, tiny=True)
        batches, found = folder / f"{name}.npz", folder / f"{name}-{peer.name}.npz"
        if not found.exists():
            cases.save(batches, make_batches(case))
            with Worker(f"{name} with {peer.name}", environments.command(peer)) as worker:
                job = {"case": dataclasses.asdict(case), "batches": str(batches), "threads": 1, "outputs": str(found)}
                opened = worker.ask("open", **job)
                assert opened["seconds"] > 0 and opened["versions"]
                assert worker.ask("run", steps=2)["seconds"] > 0
        return found

    return outputs


def test_our_models_train(outputs):
    with np.load(outputs(OURS, "din")) as found:
        assert len(set(found["losses"])) == cases.CHECKED_STEPS


def test_our_lookup_trains(outputs):
    with np.load(outputs(OURS, "lookup")) as found:
        assert np.abs(found["after"] - found["before"]).max() > 1e-3


@pytest.mark.parametrize("name", ["gru", "augru"])
def test_onednn_says_the_same(outputs, name):
    if onednn.program() is None:
        pytest.skip("no oneDNN to build against (Debian: libdnnl-dev)")
    assert difference_of(outputs(OURS, name), outputs(PEERS["onednn"], name)) < SAME


@pytest.mark.parametrize("name", ["lookup", "lookup_20", "lookup_20_alone", "deepfm", "dlrm", "din"])
def test_torch_says_the_same(outputs, name):
    _require("torch")
    assert difference_of(outputs(OURS, name), outputs(PEERS["torch"], name)) < SAME


@pytest.mark.parametrize("peer, name", [("torch", "gru"), ("torch", "augru"), ("deepctr", "deepfm"), ("deepctr", "din")])
def test_peers_that_compute_something_else_run(outputs, peer, name):
    _require(peer)
    with np.load(outputs(PEERS[peer], name)) as found:
        assert not found.files


def _require(peer):
    if not environments.installed(PEERS[peer]):
        pytest.skip(f"{peer} is not installed; `ctrlab bench peers` does it")
