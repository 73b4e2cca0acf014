"""The stall is what a stretch with a save takes longer than one without, as a share of a synchronous save's."""

import keras
import pytest
import tensorflow as tf

from ctrlab.profiling.timing import Comparison
from ctrlab.training import TouchedRows
from studies.checkpoints.bench import NO_SAVE, Stall, measure_stall


def test_shares_are_of_pairs():
    stretch = {NO_SAVE: [1.0, 2.0], "synchronous": [3.0, 4.0], "asynchronous": [1.1, 2.3]}
    calls = {"synchronous": [2.0, 1.0], "asynchronous": [0.1, 0.1]}
    found = Stall(1.0, 4, Comparison.of_samples(calls, baseline="synchronous"), Comparison.of_samples(stretch, baseline=NO_SAVE))
    assert (found.call_share("asynchronous").low, found.call_share("asynchronous").high) == pytest.approx((0.05, 0.1))
    assert (found.stall("asynchronous").low, found.stall("asynchronous").high) == pytest.approx((0.1, 0.3))
    assert found.stall_share("asynchronous").median == pytest.approx(0.1)
    assert found.stall_share("synchronous").median == 1.0


def test_every_saver_is_measured_and_nothing_is_left(tmp_path):
    model = keras.Sequential([keras.layers.Input([4]), keras.layers.Dense(8)])
    optimizer = TouchedRows("adagrad")
    optimizer.build(model.trainable_variables)
    taken = []

    def step():
        taken.append(optimizer.iterations.assign_add(1))
        return tf.add_n([v.value.assign_add(tf.ones(v.shape))[0] for v in model.trainable_variables[1:]])

    found = measure_stall(model, optimizer, step, tmp_path, repetitions=2)
    assert set(found.calls.measurements) == {"synchronous", "asynchronous", "tensorflow", "tensorflow async"}
    assert set(found.stretch.measurements) == {NO_SAVE, *found.calls.measurements}
    assert found.megabytes > 0 and found.steps >= 2 and taken
    assert list(tmp_path.iterdir()) == []
