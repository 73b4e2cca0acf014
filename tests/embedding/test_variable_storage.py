"""An embedding variable with a store below its memory: the same rows as one that keeps all in memory, wherever they lie."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import EmbeddingVariable, GlobalStepEviction, Options, Storage
from ctrlab.errors import CtrlabError
from ctrlab.training import TouchedRows

MEMORY = 200


def train(variable, steps=12):
    optimizer = TouchedRows("adagrad", 0.1)
    optimizer.build([variable.proxy])
    for step in range(steps):
        keys = tf.constant(np.random.default_rng(step).zipf(1.2, 300) % 3_000 - 1_000)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((variable.lookup(keys, training=True) - 1) ** 2)
        optimizer.apply([tape.gradient(loss, variable.proxy.value)], [variable.proxy])


def rows_of(variable):
    state = variable.state()
    order = np.argsort(state.keys)
    return [array[order] for array in (state.keys, state.values, state.slots["accumulator"], state.frequencies, state.steps)]


@pytest.mark.parametrize("cache", ["lru", "lfu"])
def test_rows_that_sink_are_trained_read_saved_and_evicted_as_any(cache, tmp_path):
    eviction = GlobalStepEviction(8)
    plain = EmbeddingVariable("items", 4, Options(eviction=eviction))
    tiered = EmbeddingVariable("items", 4, Options(eviction=eviction, storage=Storage(str(tmp_path), MEMORY, cache=cache)))
    for variable in (plain, tiered):
        train(variable)
    stats = tiered.stats()
    assert stats.rows == plain.rows() > 2 * MEMORY and stats.rows_below >= stats.rows // 4 and stats.hits_below > 0
    for found, expected in zip(rows_of(tiered), rows_of(plain)):
        np.testing.assert_array_equal(found, expected)
    keys = tf.constant(tiered.keys_below()[:50])
    np.testing.assert_array_equal(tiered.lookup(keys), plain.lookup(keys))
    tiered.prefetch(keys)
    assert tiered.evict() == plain.evict() > 0
    for found, expected in zip(rows_of(tiered), rows_of(plain)):
        np.testing.assert_array_equal(found, expected)
    again = EmbeddingVariable("again", 4, Options(storage=Storage(str(tmp_path / "again"), MEMORY, cache=cache)))
    again.load_state(tiered.state())
    for found, expected in zip(rows_of(again), rows_of(plain)):
        np.testing.assert_array_equal(found, expected)


def test_a_folder_that_can_not_be_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    variable = EmbeddingVariable("items", 4, Options(storage=Storage(str(tmp_path / "file" / "folder"), 1)))
    with pytest.raises((CtrlabError, tf.errors.InvalidArgumentError), match="items"):
        train(variable)
