"""Rows go during training, each so many steps, in `train` and in `fit`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import Embedding, GlobalStepEviction, Options
from ctrlab.errors import CtrlabError
from ctrlab.training import EvictionCallback, Evictions, SeveralSteps, TouchedRows, train, train_step

TWO = GlobalStepEviction(2)


def made(eviction=TWO):
    """A model over one table, and eight batches whose keys each come once."""
    keys = keras.Input((3,), dtype="int64")
    layer = Embedding(4, options=Options(eviction=eviction))
    model = keras.Model(keys, keras.layers.Dense(1)(layer(keys)))
    optimizer = TouchedRows("adagrad", 0.1)
    model.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True))
    optimizer.build(model.trainable_variables)
    rows = tf.data.Dataset.from_tensor_slices((np.arange(8 * 2 * 3).reshape(16, 3), np.ones((16, 1), "f4"))).batch(2)
    return model, optimizer, rows, next(iter(layer.tables.values()))


@pytest.mark.parametrize("several", [False, True])
def test_train_evicts_every_four_steps(several):
    model, optimizer, rows, table = made()
    step = train_step(model, optimizer)
    evictions, seen = Evictions(model, every=4), []
    hooks = [evictions, lambda number, loss: seen.append(table.rows())]
    train(model, optimizer, rows, on_step=hooks, step=SeveralSteps(step) if several else step)
    # Six keys a step. After step 4 those of steps 2 to 4 are left, and after step 8 those of steps 6 to 8.
    assert evictions.removed == 6 + 4 * 6 and table.rows() == 18
    if not several:
        assert seen == [6, 12, 18, 18, 24, 30, 36, 18]


@pytest.mark.parametrize("together", [1, 4])
def test_fit_evicts_as_train_does(together):
    model, optimizer, rows, table = made()
    model.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True), steps_per_execution=together)
    callback = EvictionCallback(every=4)
    model.fit(rows, verbose=0, callbacks=[callback])
    assert callback.evictions.removed == 30 and table.rows() == 18


def test_without_it_nothing_goes():
    model, _, rows, table = made()
    model.fit(rows, verbose=0)
    assert table.rows() == 48


def test_a_model_that_evicts_nothing_is_told():
    model, _, rows, _ = made(eviction=None)
    with pytest.raises(CtrlabError, match="by their option `eviction`"):
        Evictions(model, 4)
    with pytest.raises(CtrlabError, match="by their option `eviction`"):
        model.fit(rows, verbose=0, callbacks=[EvictionCallback(4)])


@pytest.mark.parametrize("every", [0, -1, 1.5])
def test_steps_are_whole(every):
    with pytest.raises(CtrlabError, match="steps between evictions"):
        Evictions(made()[0], every)
