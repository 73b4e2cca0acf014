"""A checkpoint of a model goes into the next model of the same code, whose layers Keras numbers otherwise; into no other."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import Embedding, embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.training import Checkpoints, TouchedRows, get_state, train
from ctrlab.training.restoring import restore, state_variables

KEYS = np.random.default_rng(0).integers(-50, 50, (64, 3))
BATCHES = [(tf.constant(keys), tf.ones([16, 1])) for keys in KEYS.reshape(4, 16, 3)]


def made(units=(4, 4), tables=2):
    """Two layers of one shape, one of them trained more than the other, so that a swap would be seen."""
    keys = keras.Input((3,), dtype="int64")
    rows = [keras.layers.Flatten()(Embedding(4, combiner="rows")(keys)) for _ in range(tables)]
    joined = rows[0] if tables == 1 else keras.layers.Concatenate()(rows)
    hidden = keras.layers.Dense(4)(joined)
    for width in units:
        hidden = keras.layers.Dense(width)(hidden)
    return keras.Model(keys, keras.layers.Dense(1)(hidden)), TouchedRows("adam_async", 0.1)


@pytest.fixture
def saved(tmp_path):
    """A folder with a full save and deltas, the model, and its optimizer."""
    model, optimizer = made()
    with Checkpoints(tmp_path / "run", model, optimizer, every=1, full_every=9) as checkpoints:
        train(model, optimizer, BATCHES, on_step=checkpoints)
    return tmp_path / "run", model, optimizer


def values(model, optimizer):
    return [value for value in get_state(model, optimizer).values() if value.size]


def test_the_second_model_of_the_same_code_goes_on(saved):
    folder, first, first_optimizer = saved
    second, optimizer = made()
    assert state_variables(second, optimizer).keys() != state_variables(first, first_optimizer).keys()
    with Checkpoints(folder, second, optimizer, every=1, full_every=9, resume=True) as checkpoints:
        assert checkpoints.restored.step == 4 and checkpoints.restored.renamed
        for a, b in zip(values(first, first_optimizer), values(second, optimizer), strict=True):
            np.testing.assert_array_equal(a, b)
        for a, b in zip(embedding_variables(first), embedding_variables(second), strict=True):
            assert a.name != b.name
            one, two = a.state(), b.state()
            order, other = np.argsort(one.keys), np.argsort(two.keys)
            np.testing.assert_array_equal(one.keys[order], two.keys[other])
            np.testing.assert_array_equal(one.values[order], two.values[other])
            assert one.slots.keys() == two.slots.keys()
        np.testing.assert_array_equal(first.predict(KEYS, verbose=0), second.predict(KEYS, verbose=0))
        train(first, first_optimizer, BATCHES)
        train(second, optimizer, BATCHES, on_step=checkpoints)
        np.testing.assert_array_equal(first.predict(KEYS, verbose=0), second.predict(KEYS, verbose=0))
    third, optimizer = made()  # from a full save under the second's names, and its deltas
    assert restore(folder, third, optimizer).step == 8
    np.testing.assert_array_equal(second.predict(KEYS, verbose=0), third.predict(KEYS, verbose=0))


def test_the_same_names_are_no_renaming(saved):
    folder, model, optimizer = saved
    assert not restore(folder, model, optimizer).renamed


@pytest.mark.parametrize("other", [{"units": (4,)}, {"units": (5, 4)}, {"units": (4, 4, 4)}, {"tables": 1}], ids=str)
def test_another_model_is_refused_and_unchanged(saved, other):
    folder, *_ = saved
    model, optimizer = made(**other)
    optimizer.build(model.trainable_variables)
    before = values(model, optimizer)
    with pytest.raises(CtrlabError, match=r"^\S+ is of another model: "):
        restore(folder, model, optimizer)
    for a, b in zip(before, values(model, optimizer), strict=True):
        np.testing.assert_array_equal(a, b)


def test_names_that_differ_by_more_than_numbers_are_another_model(saved):
    folder, *_ = saved
    keys = keras.Input((3,), dtype="int64")
    rows = [keras.layers.Flatten()(Embedding(4, combiner="rows")(keys)) for _ in range(2)]
    hidden = keras.layers.Dense(4, name="tower")(keras.layers.Concatenate()(rows))
    model = keras.Model(keys, keras.layers.Dense(1)(keras.layers.Dense(4)(keras.layers.Dense(4)(hidden))))
    with pytest.raises(CtrlabError, match="is of another model"):
        restore(folder, model, TouchedRows("adam_async", 0.1))
