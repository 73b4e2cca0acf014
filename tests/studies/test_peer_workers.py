"""Real workers on tiny cases: each says what ours says, where it computes the same. One not installed is skipped."""

import dataclasses

import numpy as np
import pytest

from ctrlab.ops import sparse_update
from ctrlab.ops.benches import onednn
from ctrlab.ops.references import sparse_update as definition
from ctrlab.profiling.processes import Worker
from studies.peers import cases, environments
from studies.peers.batches import make_batches
from studies.peers.bench import SAME, difference_of
from studies.peers.environments import OURS, PEERS
from studies.peers.units import with_units


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
                job = {"case": dataclasses.asdict(with_units(case)), "batches": str(batches), "threads": 1, "outputs": str(found)}
                opened = worker.ask("open", **job)
                assert opened["seconds"] > 0 and opened["versions"]
                assert worker.ask("run", steps=2)["seconds"] > 0
        return found

    return outputs


@pytest.mark.study
def test_our_models_train(outputs):
    with np.load(outputs(OURS, "din")) as found:
        assert len(set(found["losses"])) == cases.CHECKED_STEPS


def reference(case):
    """The lookup before and after a step of Adagrad on what it has looked up, in float64: before, after [B, F * D]."""
    batch, _ = make_batches(case)
    rule = sparse_update.Rule("adagrad", initial_accumulator=cases.FIRST_ACCUMULATOR)
    before, after = [], []
    for t, ids in enumerate(batch["ids"]):
        table = cases.first_table(t, case.rows, case.dim).astype(np.float64)
        slots = {name: np.full_like(table, value) for name, value in rule.slots.items()}
        d_out = batch["d_out"][:, t * case.dim : (t + 1) * case.dim]
        before.append(table[ids].reshape(case.batch, case.length, case.dim).sum(1))
        definition.reference(rule, [(table, slots, (ids, np.repeat(d_out, case.length, axis=0)))], cases.LEARNING_RATE, 1)
        after.append(table[ids].reshape(case.batch, case.length, case.dim).sum(1))
    return {"before": np.concatenate(before, 1), "after": np.concatenate(after, 1)}


@pytest.mark.parametrize("name", ["lookup", "lookup_20", "variable", "variable_4"])
@pytest.mark.parametrize("peer", [OURS, PEERS["torch"]], ids=lambda peer: peer.name)
def test_lookups_and_their_steps_are_the_references(outputs, peer, name):
    _require(peer)
    expected = reference(cases.case_of(name, tiny=True))
    assert np.abs(expected["after"] - expected["before"]).max() > 1e-3
    with np.load(outputs(peer, name)) as found:
        for moment, out in expected.items():
            np.testing.assert_allclose(found[moment], out, rtol=0, atol=1e-6, err_msg=moment)


@pytest.mark.parametrize("name", ["gru", "augru"])
def test_onednn_says_the_same(outputs, name):
    if onednn.program() is None:
        pytest.skip("no oneDNN to build against (Debian: libdnnl-dev)")
    assert difference_of(outputs(OURS, name), outputs(PEERS["onednn"], name)) < SAME


@pytest.mark.parametrize("name", ["lookup_20_alone", "deepfm", "dlrm", "din"])
def test_torch_says_the_same(outputs, name):
    _require(PEERS["torch"])
    assert difference_of(outputs(OURS, name), outputs(PEERS["torch"], name)) < SAME


@pytest.mark.parametrize("peer, name", [("torch", "gru"), ("torch", "augru"), ("deepctr", "deepfm"), ("deepctr", "din")])
def test_peers_that_compute_something_else_run(outputs, peer, name):
    _require(PEERS[peer])
    with np.load(outputs(PEERS[peer], name)) as found:
        assert not found.files


def _require(peer):
    if peer.environment and not peer.environment.installed:
        pytest.skip(f"{peer.name} is not installed; `ctrlab bench peers` does it")
