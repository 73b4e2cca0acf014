"""Keys that are sent once, with how often they came, train a table as keys that are sent each time do."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_pairs import Pair, same
from same_tables import require_same_table

from ctrlab.embedding import BloomFilter, CounterFilter, EmbeddingVariable, Options
from ctrlab.embedding.table import ops as table_ops
from ctrlab.errors import CtrlabError
from ctrlab.ops.lookup import Layout
from ctrlab.training import TouchedRows

DIM = 3
KEYS = [-(2**63), -1, 0, 1, 7, 2**40, 2**63 - 1]
LAYOUT = Layout((0, 0), ("rows", "rows"), (0, 1))  # what two workers sent to a table

counted = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 4)), max_size=6)
batches = st.lists(st.tuples(counted, counted), min_size=1, max_size=4)


def int64(numbers):
    return tf.convert_to_tensor(numbers, tf.int64)


def gradient(variable, keys, rows, times=(), layout=LAYOUT):
    """The gradient of a loss whose gradient for each key of each column is its row: keys and times int64 [C] of [N], rows [C]
    of [N, D].
    """
    columns = [tf.RaggedTensor.from_row_lengths(k, [tf.size(k, tf.int64)]) for k in map(int64, keys)]  # of any lengths
    with tf.GradientTape() as tape:
        found = table_ops.grouped([variable], columns, layout, True, times)
        loss = tf.add_n([tf.reduce_sum(out * row) for out, row in zip(found, rows)])
    return tape.gradient(loss, variable.proxy.value)


def rows_of(keys, seed):
    return np.random.default_rng(seed).normal(size=(len(keys), DIM)).astype("f4")


def sent_each_time(rows, times):
    """The gradients with one row per occurrence: first the row of the key, then zeros."""
    return np.concatenate([np.pad(row[None], ((0, n - 1), (0, 0))) for row, n in zip(rows, times)] or [np.zeros((0, DIM), "f4")])


class Trained:
    """A variable, and its step on what two workers sent, eagerly or as a graph."""

    def __init__(self, graph, admission):
        self.variable = EmbeddingVariable("items", DIM, Options(admission=admission))
        self.optimizer = TouchedRows("adagrad", 0.1, clip_norm=1.0)
        self.optimizer.build([self.variable.proxy])
        keys, rows = ([tf.TensorSpec(shape, kind)] * 2 for shape, kind in (([None], "int64"), ([None, DIM], "float32")))
        self.counted = tf.function(self._step, [keys, rows, keys]) if graph else self._step
        self.plain = tf.function(self._step, [keys, rows]) if graph else self._step

    def _step(self, keys, rows, times=()):
        self.optimizer.apply([gradient(self.variable, keys, rows, times)], [self.variable.proxy])


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("admission", [None, CounterFilter(3), BloomFilter(3, 100, 0.01)], ids=["none", "counter", "bloom"])
@given(batches)
@settings(max_examples=12, deadline=None)
def test_counted_keys_train_as_repeated_ones(graph, admission, batches):
    once, each = Trained(graph, admission), Trained(graph, admission)
    for seed, batch in enumerate(batches):
        keys, times = ([np.array([sent[i] for sent in column], np.int64) for column in batch] for i in (0, 1))
        rows = [rows_of(column, seed) for column in keys]
        once.counted(keys, rows, times)
        each.plain([np.repeat(k, n) for k, n in zip(keys, times)], [sent_each_time(r, n) for r, n in zip(rows, times)])
        counted, repeated = once.variable.state(), each.variable.state()
        require_same_table("counted", counted, repeated)
        np.testing.assert_array_equal(counted.filter, repeated.filter)


@given(batches)
@settings(max_examples=15, deadline=None)
def test_counted_keys_train_as_the_reference_says(batches):
    pair = Pair(DIM, clip=1.0, admission=CounterFilter(4))
    for seed, batch in enumerate(batches):
        keys, times = (np.array([sent[i] for column in batch for sent in column], np.int64) for i in (0, 1))
        rows = rows_of(keys, seed)
        pair.step += 1
        pair.reference.update(keys, rows, 0.1, pair.step, pair.clip, times)
        found = gradient(pair.variable, [keys], [rows], [times], Layout((0,), ("rows",), (0,)))
        pair.optimizer.apply([found], [pair.variable.proxy])
        same(pair.variable.state(), pair.reference.state())


def test_outputs_are_those_without_times_and_the_gradient_repeats_each_key_as_often():
    variable = EmbeddingVariable("items", 1)
    keys = tf.constant([5, -3, 5], tf.int64)
    times = [tf.constant([1, 2, 1], tf.int64), tf.constant([1, 1, 3], tf.int64)]
    plain, counted = (table_ops.grouped([variable], [keys] * 2, LAYOUT, True, sent) for sent in ((), times))
    np.testing.assert_array_equal(plain, counted)
    rows = [np.array([[1], [2], [4]], "f4"), np.array([[8], [16], [32]], "f4")]
    found = gradient(variable, [keys] * 2, rows, times)
    np.testing.assert_array_equal(found.indices, [-3, -3, -3, 5, 5, 5, 5, 5, 5])
    np.testing.assert_array_equal(found.values.numpy().ravel(), [18, 0, 0, 45, 0, 0, 0, 0, 0])


def test_ragged_keys_have_a_time_each():
    variable = EmbeddingVariable("items", 1)
    keys = tf.ragged.constant([[1, 2], [], [2]], dtype=tf.int64)
    with tf.GradientTape() as tape:
        times = [tf.constant([1, 1, 2], tf.int64)]
        (rows,) = table_ops.grouped([variable], [keys], Layout((0,), ("rows",), (0,)), True, times)
        loss = tf.reduce_sum(rows)
    np.testing.assert_array_equal(tape.gradient(loss, variable.proxy.value).indices, [1, 2, 2, 2])


def test_a_graph_steps_on_what_was_merged_however_often_a_key_came():
    """4 billion occurrences: as many rows of zeros are never written."""
    variable, optimizer = EmbeddingVariable("items", 1), TouchedRows("sgd", 1.0)
    optimizer.build([variable.proxy])
    times = [int64([2**31 - 1])] * 2

    @tf.function
    def step():
        optimizer.apply([gradient(variable, [[7]] * 2, [np.ones((1, 1), "f4")] * 2, times)], [variable.proxy])

    before = variable.lookup(tf.constant([7], tf.int64), training=True).numpy()
    step()
    state = variable.state()
    assert state.frequencies.tolist() == [2**32 - 2]
    np.testing.assert_array_equal(state.values, before - 2)


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        ([[1, 1]], r"^All columns have times, or none; received those of 1 for 2 columns\.$"),
        ([[1, 0], [1, 1]], r"^The times of column 0 must be at least 1 and less than 2\^31 together; received 0 at 1\.$"),
        ([[1, 1], [1]], r"^The times of column 1 must be \[2\]; received \[1\]\.$"),
    ],
)
def test_times_that_do_not_fit_are_one_sentence(times, sentence):
    variable = EmbeddingVariable("items", 1)
    columns = [tf.constant([1, 2], tf.int64)] * 2
    with pytest.raises(CtrlabError, match=sentence):
        table_ops.grouped([variable], columns, LAYOUT, True, [int64(t) for t in times])
    with pytest.raises(CtrlabError, match=r"combiner rows .*column 1 "):
        mixed = Layout((0, 0), ("rows", "sum"), (0, 1))
        table_ops.grouped([variable], columns, mixed, True, [tf.constant([1, 1], tf.int64)] * 2)
