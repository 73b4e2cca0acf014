"""The embedding variable against the NumPy reference: lookups, updates, eviction and states in any order."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_pairs import Pair, changed, same

from ctrlab.embedding import CounterFilter, EmbeddingVariable, GlobalStepEviction, Initializer, L2Eviction, Options
from ctrlab.embedding.table_state import TableState
from ctrlab.training import TouchedRows
from ctrlab.training.optimizers import KINDS

ENDS = [-1, 0, 1, -2, np.iinfo(np.int64).min, np.iinfo(np.int64).max, 1 << 40]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.lists(st.sampled_from([*ENDS, *range(2, 12)]), max_size=12), st.integers(0, 2**32 - 1)),
        st.tuples(st.just("evict"), st.integers(0, 3), st.none()),
        st.tuples(st.just("changed"), st.none(), st.none()),
        st.tuples(st.just("reload"), st.none(), st.none()),
    ),
    max_size=8,
)


@given(
    steps,
    st.sampled_from(KINDS),
    st.sampled_from([None, 0.5]),
    st.sampled_from([None, CounterFilter(1), CounterFilter(3)]),
    st.sampled_from([GlobalStepEviction(1), L2Eviction(0.08)]),
    st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_any_sequence_of_calls_is_the_references(calls, kind, clip, admission, eviction, fused):
    pair = Pair(kind=kind, clip=clip, fused=fused, admission=admission, eviction=eviction)
    for call, what, seed in calls:
        if call == "update":
            pair.update(what, np.random.default_rng(seed).standard_normal((len(what), 3)))
        elif call == "evict":
            now = pair.step + what
            assert pair.variable.evict(now) == pair.reference.evict(now)
        elif call == "changed":
            same(changed(pair.variable), pair.reference.changed())
        else:
            state = pair.variable.state()
            pair.variable.load_state(state)
            pair.reference.was_cut = False  # nobody knows what it holds now
        pair.check([*ENDS, 5, 100])


@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_steps_are_those_of_a_dense_table(kind):
    """The same optimizer on a dense table with the same start, by tapes: to 1e-6 of the largest value."""
    vocabulary, dim = 50, 8
    variable = EmbeddingVariable("items", dim, Options(initializer=Initializer(seed=7)))
    start = variable.lookup(tf.range(vocabulary, dtype=tf.int64), training=True)
    dense = tf.Variable(start)
    target = tf.constant(np.random.default_rng(0).standard_normal((vocabulary, dim)), tf.float32)
    mine, theirs = (
        TouchedRows(kind, 0.05, clip_norm=2.0, rungs=["lookup"]),
        TouchedRows(kind, 0.05, clip_norm=2.0, rungs=["lookup"]),
    )
    mine.build([variable.proxy])
    theirs.build([dense])

    def loss(rows, ids):
        return tf.reduce_mean(tf.square(rows - tf.gather(target, ids)))

    @tf.function
    def step(ids):
        with tf.GradientTape(persistent=True) as tape:
            one, two = loss(variable.lookup(ids, training=True), ids), loss(tf.gather(dense, ids), ids)
        mine.apply([tape.gradient(one, variable.proxy.value)], [variable.proxy])
        theirs.apply([tape.gradient(two, dense)], [dense])

    rng = np.random.default_rng(1)
    for _ in range(100):
        step(tf.constant(rng.zipf(1.3, 64) % vocabulary))
    found = variable.lookup(tf.range(vocabulary, dtype=tf.int64), training=True)
    assert np.abs(found - dense.numpy()).max() <= 1e-6 * np.abs(dense.numpy()).max()
    assert np.abs(found - start).max() > 0.1, "it did learn"


def test_the_tape_gives_each_key_as_often_as_it_came_and_their_sums():
    variable = EmbeddingVariable("items", 2)
    with tf.GradientTape() as tape:
        rows = variable.lookup(tf.constant([5, -3, 5, 5], tf.int64), training=True)
        loss = tf.reduce_sum(rows * tf.constant([[1.0, 10], [2, 20], [4, 40], [8, 80]]))
    gradient = tape.gradient(loss, variable.proxy.value)
    np.testing.assert_array_equal(gradient.indices, [-3, 5, 5, 5])
    np.testing.assert_array_equal(gradient.values, [[2, 20], [13, 130], [0, 0], [0, 0]])


@pytest.mark.parametrize("graph", [False, True])
def test_gradients_of_micro_batches_add_up_counts_and_all(graph):
    variable = EmbeddingVariable("items", 2, Options(initializer=Initializer("constant", 1.0), admission=CounterFilter(2)))
    optimizer = TouchedRows("sgd", 0.5)
    optimizer.build([variable.proxy])

    def step():
        parts = []
        for keys in ([1, 2], [2, 3]):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable.lookup(tf.constant(keys, tf.int64), training=True))
            parts.append(tape.gradient(loss, variable.proxy.value))
        both = tf.IndexedSlices(
            tf.concat([g.values for g in parts], 0) / 2, tf.concat([g.indices for g in parts], 0), parts[0].dense_shape
        )
        optimizer.apply([both], [variable.proxy])

    (tf.function(step) if graph else step)()
    state = variable.state()
    assert (state.keys.tolist(), state.frequencies.tolist()) == ([2], [2]), "2 came once in each"
    np.testing.assert_array_equal(state.values, [[0.5, 0.5]])
    assert sorted(state.candidate_keys.tolist()) == [1, 3]


def test_a_gradient_that_is_thrown_away_counts_nothing():
    variable = EmbeddingVariable("items", 2)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable.lookup(tf.constant([1], tf.int64), training=True))
    tape.gradient(loss, variable.proxy.value)
    assert variable.stats().rows == 0 and not len(variable.state().candidate_keys)


def test_an_earlier_state_brings_back_its_step():
    """Eviction by the last step must not use a step that was taken back or refused."""
    pair = Pair(dim=2, eviction=GlobalStepEviction(10))
    pair.update([1, 2], np.ones((2, 2)))
    state = pair.variable.state()
    pair.optimizer.iterations.assign(1_000)
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([3], tf.int64))
    pair.optimizer.apply([slices], [pair.variable.proxy])
    pair.variable.load_state(state)
    pair.optimizer.iterations.assign(1 << 40)
    with pytest.raises(tf.errors.InvalidArgumentError, match="A step must be"):
        pair.optimizer.apply([slices], [pair.variable.proxy])
    assert pair.variable.evict() == 0
    same(pair.variable.state(), pair.reference.state())


def test_a_state_without_an_optimizer_meets_it_later():
    """A checkpoint is restored before the first step: its slots stay; those of another optimizer start again."""
    pair = Pair(dim=2, kind="adam_async")
    pair.update([1, 2], np.ones((2, 2)))
    loaded = EmbeddingVariable("loaded", 2)
    loaded.load_state(pair.variable.state())
    assert loaded.slot_names == ("m", "v")
    TouchedRows("adam_async").build([loaded.proxy])
    same(loaded.state(), pair.reference.state())
    TouchedRows("ftrl").build([loaded.proxy])
    assert loaded.slot_names == ("accumulator", "linear")
    np.testing.assert_allclose(loaded.state().slots["accumulator"], 0.1)


def test_shards_make_up_the_whole():
    pair = Pair(dim=2)
    pair.update(range(100), np.ones((100, 2)))
    parts = [pair.variable.state(shard=(j, 3)) for j in range(3)]
    assert sum(len(part.keys) for part in parts) == 100 and min(len(part.keys) for part in parts) > 10
    other = EmbeddingVariable("other", 2)
    for j, part in enumerate(parts):
        other.load_state(part, how="more" if j else "all")
    same(other.state(), pair.reference.state())


def test_threads_train_and_read_one_table_at_once():
    """Two functions step it and two read it: no key is lost and each count is right, whatever the order."""
    variable = EmbeddingVariable("items", 4, Options(initializer=Initializer("constant", 0.0)))
    optimizers = [TouchedRows("sgd", 1.0) for _ in range(2)]
    for optimizer in optimizers:
        optimizer.build([variable.proxy])
    problems = []

    def train(optimizer, seed):
        @tf.function
        def step(keys):
            with tf.GradientTape() as tape:
                loss = -tf.reduce_sum(variable.lookup(keys, training=True))
            optimizer.apply([tape.gradient(loss, variable.proxy.value)], [variable.proxy])

        for batch in np.random.default_rng(seed).integers(0, 3_000, (30, 500)):
            step(tf.constant(batch))

    def read():
        for _ in range(40):
            rows = variable.lookup(tf.range(3_000, dtype=tf.int64)).numpy()
            if not (rows == rows[:, :1]).all() or (rows != np.round(rows)).any():
                problems.append(rows)

    threads = [threading.Thread(target=train, args=(optimizers[i], i)) for i in range(2)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, "a reader saw a row that was half stepped"
    came = np.bincount(np.concatenate([np.random.default_rng(s).integers(0, 3_000, (30, 500)).ravel() for s in range(2)]))
    state = variable.state()
    np.testing.assert_array_equal(state.frequencies, came[state.keys])
    np.testing.assert_array_equal(state.values, np.repeat(came[state.keys][:, None], 4, 1))
    assert len(state.keys) == (came > 0).sum()


def test_ragged_keys_are_looked_up_as_they_lie():
    variable = EmbeddingVariable("items", 3)
    keys = tf.ragged.constant([[1, 2], [], [2]], dtype=tf.int64)
    rows = variable.lookup(keys, training=True)
    assert rows.shape.as_list() == [3, None, 3]
    np.testing.assert_array_equal(rows.values, variable.lookup(keys.values, training=True))


def test_memory_is_at_most_thirteen_tenths_of_what_is_kept():
    """The limit refers to key, row, frequency and last step. It holds for any number of keys, even if parts of the index have
    just grown.
    """
    variable, dim, keys = EmbeddingVariable("items", 16), 16, 0
    while keys < 1_000_000:
        n = 50_000 if keys else 250_000  # below, pages of the shards that are half full count for more
        ones = np.ones(n, np.int64)
        variable.load_state(TableState(np.arange(keys, keys + n) * 7919, np.zeros((n, dim), "f4"), {}, ones, ones), how="more")
        keys += n
        assert variable.stats().bytes <= 1.3 * keys * (8 + 4 * dim + 8), keys


def test_counts_of_the_statistics():
    variable = EmbeddingVariable("items", 4, Options(admission=CounterFilter(2)))
    optimizer = TouchedRows("sgd")
    keys = tf.constant([1, 1, 2], tf.int64)
    optimizer.apply([tf.IndexedSlices(tf.ones([3, 4]), keys)], [variable.proxy])
    variable.lookup(keys)
    stats = variable.stats()
    assert (stats.rows, stats.candidates, stats.hits, stats.misses) == (1, 1, 2, 1)
    assert stats.hit_rate == pytest.approx(2 / 3) and variable.rows() == 1
    assert stats.bytes > 0
