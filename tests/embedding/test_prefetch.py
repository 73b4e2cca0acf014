"""Rows that come up from the storage one batch ahead of the training."""

import contextlib
import threading

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.embedding import EmbeddingVariable, Options, Storage, prefetched
from ctrlab.errors import CtrlabError
from ctrlab.training import TouchedRows

BATCHES = [np.arange(start, start + 100) * 7 for start in range(0, 2_000, 100)]


@pytest.fixture
def grown(tmp_path):
    """A variable with 2,000 rows, of which the memory holds 400; and its step on a batch of keys."""
    variable, optimizer = EmbeddingVariable("items", 4, Options(storage=Storage(str(tmp_path), 400))), TouchedRows("adagrad", 0.1)
    optimizer.build([variable.proxy])

    def step(keys):
        rows = variable.lookup(tf.constant(keys, tf.int64), training=True)
        slices = tf.IndexedSlices(rows + 1.0, tf.constant(keys, tf.int64), tf.constant([0, 4], tf.int64))
        optimizer.apply([slices], [variable.proxy])

    for keys in BATCHES:
        step(keys)
    return variable, step


def keys_of(variable):
    return lambda batch: [(variable, tf.constant(batch, tf.int64))]


def test_every_step_finds_its_rows_in_memory(grown):
    variable, step = grown
    before = variable.stats()
    seen = []
    for batch in prefetched(iter(BATCHES), keys_of(variable)):
        step(batch)
        seen.append(batch)
    after = variable.stats()
    assert [batch.tolist() for batch in seen] == [batch.tolist() for batch in BATCHES]
    assert (after.hits - before.hits, after.hits_below - before.hits_below) == (2_000, 0)
    assert after.rows - after.rows_below <= 400


def test_without_it_they_are_read_from_below(grown):
    variable, step = grown
    before = variable.stats()
    for batch in BATCHES:
        step(batch)
    assert variable.stats().hits_below - before.hits_below > 1_000


def test_no_batch_is_none(grown):
    assert list(prefetched([], keys_of(grown[0]))) == []


def test_what_is_wrong_comes_with_its_batch(grown):
    variable, _ = grown
    batches = prefetched([BATCHES[0], "no keys"], lambda batch: [(variable, tf.constant(batch, tf.int64))])
    np.testing.assert_array_equal(next(batches), BATCHES[0])
    with pytest.raises((CtrlabError, TypeError)):
        next(batches)


def test_what_can_t_be_read_comes_after_what_was(grown):
    """A batch that was read before the fault is still trained on."""

    def read():
        yield BATCHES[0]
        raise OSError("a bad file")

    batches = prefetched(read(), keys_of(grown[0]))
    np.testing.assert_array_equal(next(batches), BATCHES[0])
    with pytest.raises(OSError, match="a bad file"):
        next(batches)


def test_who_stops_early_leaves_no_thread(grown):
    with contextlib.closing(prefetched(BATCHES, keys_of(grown[0]))) as batches:
        assert next(batches) is BATCHES[0]
        assert threads()
    assert not threads()


def test_none_is_left_at_the_end_or_by_an_error(grown):
    list(prefetched(BATCHES, keys_of(grown[0])))
    with pytest.raises(ZeroDivisionError):
        list(prefetched(BATCHES, lambda batch: 1 / 0))
    assert not threads()


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("ctrlab-prefetch")]
