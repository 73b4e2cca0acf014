"""Embedding variables whose rows sink to a disk: the same answers, bit for bit, as with all of them in memory."""

import gc
import os
import re
import resource
import signal
import threading
import time
import weakref

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_pairs import changed
from same_tables import require_same_table

from ctrlab.embedding import CounterFilter, Embedding, EmbeddingVariable, GlobalStepEviction, Options, Storage
from ctrlab.embedding.store import Store
from ctrlab.embedding.table_state import TableState
from ctrlab.errors import CtrlabError
from ctrlab.training import TouchedRows

KEYS = st.lists(st.sampled_from([-1, 0, 1, np.iinfo(np.int64).min, np.iinfo(np.int64).max, *range(100, 140)]), max_size=12)


class Both:
    """A variable with storage and one without, trained alike."""

    def __init__(self, path, memory_rows=4, cache="lfu", kind="adagrad", compaction="sync", **options):
        storage = Storage(str(path), memory_rows, cache, compaction)
        self.variables = [EmbeddingVariable("items", 3, Options(storage=s, **options)) for s in (storage, None)]
        self.optimizers = [TouchedRows(kind, 0.1) for _ in self.variables]
        for variable, optimizer in zip(self.variables, self.optimizers):
            optimizer.build([variable.proxy])

    def forget(self):
        for variable in self.variables:
            variable.forget("copy")

    def update(self, keys, seed=0):
        rows = np.random.default_rng(seed).normal(size=(len(keys), 3)).astype("f4")
        for variable, optimizer in zip(self.variables, self.optimizers):
            slices = tf.IndexedSlices(tf.constant(rows), tf.constant(keys, tf.int64), tf.constant([0, 3], tf.int64))
            optimizer.apply([slices], [variable.proxy])

    def check(self, keys=()):
        for training in (True, False):
            below, memory = (v.lookup(tf.constant(keys, tf.int64), training=training).numpy() for v in self.variables)
            np.testing.assert_array_equal(below, memory)
        require_same_table("with storage", *(v.state() for v in self.variables))


def until(holds, variable):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, variable.stats()
        time.sleep(0.01)


def fits_memory(variable, memory_rows):
    """Waits until no more rows are in memory: those of an update that were more sink in the background."""
    until(lambda: (stats := variable.stats()).rows - stats.rows_below <= memory_rows, variable)


@pytest.mark.parametrize("cache", ["lru", "lfu"])
@given(steps=st.lists(st.tuples(st.sampled_from(["update", "lookup", "changed", "save", "evict", "reload"]), KEYS), max_size=14))
@settings(max_examples=15, deadline=None)
def test_the_same_answers_as_in_memory(cache, steps, tmp_path_factory):
    options = {"admission": CounterFilter(2), "eviction": GlobalStepEviction(3)}
    both = Both(tmp_path_factory.mktemp("store"), cache=cache, **options)
    for number, (what, keys) in enumerate(steps):
        if what == "update" and keys:
            both.update(keys, number)
        elif what == "evict":
            assert both.variables[0].evict() == both.variables[1].evict()
        elif what in ("changed", "save"):
            if what == "save":  # of everything
                both.forget()
            require_same_table("changes", *(changed(v) for v in both.variables))
        elif what == "reload":
            for variable in both.variables:
                variable.load_state(variable.state())
        both.check(keys)


def test_rows_sink_and_come_back(tmp_path):
    both = Both(tmp_path, memory_rows=100)
    for start in range(0, 1_000, 50):
        both.update(list(range(start, start + 50)), start)
    variable = both.variables[0]
    stats = variable.stats()
    assert stats.rows == 1_000 and 850 <= stats.rows_below <= 950
    below = variable.keys_below()
    assert len(below) == stats.rows_below and not set(below) & set(range(950, 1_000)), "rows of the last step sank"
    variable.prefetch(tf.constant([0, 1, 2], tf.int64))
    assert not {0, 1, 2} & set(variable.keys_below())
    read = variable.stats().hits_below
    variable.lookup(tf.constant([0, 1, 2], tf.int64))
    assert variable.stats().hits_below == read, "what was fetched before is read again"
    both.check(list(range(0, 1_000, 7)))


def test_every_key_looked_up_is_a_hit_or_a_hit_below_or_a_miss(tmp_path):
    variable = Both(tmp_path, memory_rows=16)
    for start in range(0, 60, 10):
        variable.update(list(range(start, start + 10)), start)
    variable = variable.variables[0]
    begin = variable.stats()
    assert (begin.hits, begin.hits_below, begin.misses) == (0, 0, 0), "updates look nothing up"
    fits_memory(variable, 16)
    keys = [*range(60), *range(60), -1, -2, -1]
    variable.lookup(tf.constant(keys, tf.int64))
    stats = variable.stats()
    assert stats.misses == 3 and stats.hits + stats.hits_below == 120
    assert stats.hits <= 2 * 16 and stats.hits % 2 == 0, "rows sink in the background, so it may be less"
    assert stats.hit_rate == pytest.approx(stats.hits / 123)
    variable.prefetch(tf.range(8, dtype=tf.int64))
    assert variable.stats().hits_below == stats.hits_below


def test_a_lookup_leaves_no_more_rows_in_memory_than_asked_for(tmp_path):
    both = Both(tmp_path, memory_rows=64)
    keys = list(range(5_000))
    for start in range(0, 5_000, 1_000):
        both.update(keys[start : start + 1_000], start)
    both.check(keys)
    fits_memory(both.variables[0], 64)


def test_readers_see_whole_rows_while_rows_sink(tmp_path):
    variable = EmbeddingVariable("items", 8, Options(storage=Storage(str(tmp_path), 200)))
    optimizer, problems, done = TouchedRows("sgd", 1.0), [], threading.Event()
    optimizer.build([variable.proxy])
    base = variable.lookup(tf.range(2_000, dtype=tf.int64), training=True).numpy()

    def read(seed):
        rng = np.random.default_rng(seed)
        while not done.is_set():
            keys = rng.integers(0, 2_000, 300)
            moved = base[keys] - variable.lookup(tf.constant(keys), training=True).numpy()
            if np.ptp(np.round(moved, 3), axis=1).max() > 0:
                problems.append(keys)

    threads = [threading.Thread(target=read, args=[s]) for s in range(2)]
    for thread in threads:
        thread.start()
    rng = np.random.default_rng(9)
    came = np.zeros(2_000, int)
    for _ in range(60):
        keys = rng.integers(0, 2_000, 150)
        np.add.at(came, keys, 1)
        optimizer.apply([tf.IndexedSlices(tf.ones([150, 8]), tf.constant(keys), tf.constant([0, 8], tf.int64))], [variable.proxy])
    done.set()
    for thread in threads:
        thread.join()
    assert not problems
    np.testing.assert_allclose(
        base - variable.lookup(tf.range(2_000, dtype=tf.int64), training=True), came[:, None] + 0 * base, atol=1e-4
    )


def test_a_disk_that_is_full_is_told_and_nothing_is_lost(tmp_path):
    both, steps = Both(tmp_path, memory_rows=1_000), iter(range(1_000))
    variable, limit = both.variables[0], resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, limit[1]))
    try:
        with pytest.raises((CtrlabError, tf.errors.OpError), match=r"items: .*\.seg: .*too large"):
            for step in steps:  # some 18,000 rows fill the store's buffer, which is then written
                both.update(range(50 * step, 50 * step + 50), step)
        until(lambda: re.fullmatch(r"Can't write to .*\.seg: File too large\.", variable.stats().problem), variable)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    both.update(range(50 * step, 50 * step + 50), step)
    for again in range(0, 50 * step, 400):
        both.update(range(again, again + 50), again)
    both.check(range(0, 50 * step + 100, 7))
    until(lambda: variable.stats().problem == "", variable)


def test_a_forked_child_lets_a_variable_go_and_its_parent_goes_on(tmp_path):
    both = Both(tmp_path)
    for first in range(0, 60, 6):
        both.update(range(first, first + 6))
    freed = [weakref.ref(variable) for variable in both.variables]
    gc.disable()  # in the child TensorFlow can't let go of what other tests left
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that hangs
        both.variables.clear(), both.optimizers.clear()
        os._exit(any(one() for one in freed))
    gc.enable()
    assert os.waitpid(child, 0)[1] == 0
    both.update(range(60))
    both.check(range(60))


def test_a_table_and_its_files_go_with_the_last_who_holds_it(tmp_path):
    """Not at the next collection of circles, which a process with large arrays may not see for long."""
    variable = EmbeddingVariable("items", 3, Options(storage=Storage(str(tmp_path), 4)))
    TouchedRows("adagrad").apply([tf.IndexedSlices(tf.ones([20, 3]), tf.range(20, dtype=tf.int64))], [variable.proxy])
    until(lambda table=variable: table.stats().rows_below > 0, variable)
    proxy, freed = variable.proxy, weakref.ref(variable)
    gc.collect()
    gc.disable()
    try:
        del variable
        assert freed() is None
    finally:
        gc.enable()
    with pytest.raises(CtrlabError, match="items is gone"):
        proxy.numpy()
    EmbeddingVariable("items", 3, Options(storage=Storage(str(tmp_path), 4))).lookup(tf.constant([1], tf.int64))  # takes the lock


def test_a_saved_graph_names_no_folder(tmp_path):
    class Model(tf.Module):
        def __init__(self):
            self.variable = EmbeddingVariable("items", 3, Options(storage=Storage(str(tmp_path / "store"), 4)))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
        def __call__(self, keys):
            return self.variable.lookup(keys)

    model, optimizer = Model(), TouchedRows("adagrad")
    keys = tf.range(20, dtype=tf.int64)
    for half in tf.split(keys, 2):
        optimizer.apply([tf.IndexedSlices(tf.ones([10, 3]), half, tf.constant([0, 3], tf.int64))], [model.variable.proxy])
    assert model.variable.stats().rows_below > 0
    expected = model(keys).numpy()
    assert np.abs(expected).min() > 0
    tf.saved_model.save(model, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    np.testing.assert_array_equal(loaded(keys), expected)
    assert str(tmp_path / "store").encode() not in (tmp_path / "saved" / "saved_model.pb").read_bytes()


def test_two_variables_in_one_folder(tmp_path):
    first = Both(tmp_path)
    first.update([1, 2, 3])
    with pytest.raises(CtrlabError, match=r"items.* open: close\(\)"):
        Both(tmp_path)
    first.update([4, 5, 6, 7, 8, 9])
    first.check([1, 2, 3, 4])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises((CtrlabError, tf.errors.OpError), match="items"):
        Both(tmp_path / "store").update([1])


def test_a_path_that_is_a_file(tmp_path):
    (tmp_path / "store").write_text("mine")
    with pytest.raises(CtrlabError, match=r"items.*store"):
        Both(tmp_path / "store")
    assert (tmp_path / "store").read_text() == "mine"


@pytest.mark.parametrize("how", ["more", "changes"])
def test_a_state_in_parts_that_the_disk_refuses(tmp_path, how):
    (tmp_path / "store").write_text("mine")
    variable = EmbeddingVariable("items", 3, Options(storage=Storage(str(tmp_path / "store"), 50)))
    ones, part = np.ones(1_000, np.int64), 0
    width = variable.state().dim
    with pytest.raises(CtrlabError, match=r"items.*store"):
        for part in range(20):
            keys, values = np.arange(1_000) + 1_000 * part, np.ones((1_000, width), np.float32)
            variable.load_state(TableState(keys, values, {}, ones, ones), how=how)
    assert part == 1 and variable.rows() == 1_000


def test_tables_of_a_layer_that_share_options_have_folders_of_their_own(tmp_path):
    layer = Embedding(3, {"item": "items", "user": "users"}, "rows", Options(storage=Storage(str(tmp_path), 4)))
    optimizer = TouchedRows("adagrad", 0.1)
    optimizer.build(layer.trainable_variables)
    for start in (0, 10):
        with tf.GradientTape() as tape:
            found = layer(
                {"item": tf.range(start, start + 10, dtype=tf.int64), "user": tf.range(10, dtype=tf.int64) % 5}, training=True
            )
            loss = tf.add_n([tf.reduce_sum(rows) for rows in found.values()])
        optimizer.apply(tape.gradient(loss, [v.value for v in layer.trainable_variables]), layer.trainable_variables)
    assert [table.rows() for table in layer.tables.values()] == [20, 5]
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["items", "users"]


def test_a_store_of_somebody_elses_is_not_erased(tmp_path):
    rows = np.arange(64, dtype=np.uint8).reshape(2, 32)  # as wide as a row of 3 numbers, a slot, frequency and step
    with Store(tmp_path / "items", 32, np.uint8) as store:
        store.put([1, 2], rows)
    foreign = r"items.*holds 0000000001.seg that no embedding variable put there"
    with pytest.raises((CtrlabError, tf.errors.OpError), match=foreign):
        Both(tmp_path).update([1])
    with Store(tmp_path / "items", 32, np.uint8) as store:
        np.testing.assert_array_equal(store.get([1, 2])[0], rows)


def test_a_folder_that_another_run_has_left(tmp_path):
    for _ in range(2):
        both = Both(tmp_path)
        for start in range(0, 40, 10):
            both.update(list(range(start, start + 10)), start)
        both.check(list(range(40)))
        assert both.variables[0].stats().rows_below > 0
        del both
        gc.collect()
