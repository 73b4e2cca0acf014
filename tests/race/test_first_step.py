"""Before it is timed, a variant that trains otherwise than the baseline is found: by one tensor, and by as little as a tenth."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.models import build
from ctrlab.race import contest, worker
from ctrlab.training import step, threads

CONTROLS = {"zeroed": 0.0, "negated": -1.0, "times 1.1": 1.1}


@pytest.fixture(autouse=True)
def untuned(monkeypatch):
    """A machine's own answer on threads can't be taken in this process, where TensorFlow has run."""
    monkeypatch.setattr(threads, "stored", dict)


def session_of(model, rungs, batch=None):
    session = worker.Session(worker.Job(model, rungs, build(model).data_set, "generated", "tiny", 2021))
    if batch is None:
        [batch] = session.run.read().take(1)
    session.run.read = lambda: tf.data.Dataset.from_tensors(batch)  # the same first batch, without reading it again and again
    return session, batch


@pytest.mark.long
def test_what_trains_otherwise_is_found_whichever_tensor_it_is(monkeypatch, tmp_path):
    model = "dlrm"
    path = str(tmp_path / "first_step.npz")
    baseline, batch = session_of(model, [])
    assert baseline.write_first_step(path) == {}
    ours, _ = session_of(model, list(contest.rungs_for(model, "all-input-run")), batch)
    assert ours.hold_first_step(path) == {"differs": []}

    own, factors = step.gradients_of, tf.Variable(tf.ones([len(baseline.run.model.trainable_variables)]))

    def scaled(*args):
        loss, logits, gradients = own(*args)
        return (
            loss,
            logits,
            [factors[i] * g if isinstance(g, tf.Tensor) else times(g, factors[i]) for i, g in enumerate(gradients)],
        )

    monkeypatch.setattr(step, "gradients_of", scaled)
    wrong, _ = session_of(model, [], batch)
    assert wrong.hold_first_step(path) == {"differs": []}
    controls = itertools.cycle(CONTROLS.items())  # a step takes a second, and each tensor's three would find the same
    for i, variable in enumerate(wrong.run.model.trainable_variables):
        control, factor = next(controls)
        factors.assign(tf.tensor_scatter_nd_update(tf.ones_like(factors), [[i]], [factor]))
        found = [tensor for tensor, _ in wrong.hold_first_step(path)["differs"]]
        short = variable.path.replace("/", "_")
        assert found and all(variable.path in t or short in t for t in found), f"{variable.path} {control}: {found}"


def times(gradient, factor):
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(factor * gradient.values, gradient.indices, gradient.dense_shape)
    return factor * gradient


def test_a_learning_rate_of_nothing_is_found(tmp_path):
    path = str(tmp_path / "first_step.npz")
    baseline, batch = session_of("dlrm", [])
    baseline.write_first_step(path)
    idle, _ = session_of("dlrm", ["lookup"], batch)
    idle.run.optimizer.learning_rate.assign(0.0)
    found = {tensor: distance for tensor, distance in idle.hold_first_step(path)["differs"]}
    moved = {f"step of model/{v.path}" for v in idle.run.model.trainable_variables}
    assert moved & found.keys() and all(distance == 1.0 for tensor, distance in found.items() if tensor in moved)
    before = np.copy(idle.run.model.trainable_variables[0])
    idle.hold_first_step(path)
    np.testing.assert_array_equal(before, idle.run.model.trainable_variables[0])  # whatever is found, it is put back
