"""Several sessions of a process that load one SavedModel read one copy of its rows, under a name that the engine knows, too."""

import ctypes
import gc
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from test_serving import KEYS, export, trained

from ctrlab import _native
from ctrlab.embedding import EmbeddingVariable, embedding_variables, served
from ctrlab.embedding.table.ops import step
from ctrlab.ops.sparse_update import Rule

WIDE = 50_000


class Figures(ctypes.Structure):
    """ctrlab_table_figures of native/table/engine_c.h."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        *((name, ctypes.c_int64) for name in ("dim", "version", "rows", "rows_below", "bytes", "hits", "hits_below", "misses")),
    )


def figures(container, name):
    """The figures of the served table; None if there is none. The handle is released again."""
    engine, table, said = ctypes.CDLL(str(_native.ENGINE)), ctypes.c_uint64(), ctypes.create_string_buffer(512)
    buffer = said, ctypes.c_size_t(len(said))
    found = engine.ctrlab_table_find(container.encode(), name.encode(), ctypes.byref(table), *buffer)
    if found == 2:  # CTRLAB_TABLE_UNKNOWN
        return None
    numbers = Figures(ctypes.sizeof(Figures))
    assert found == 0 and engine.ctrlab_table_read_figures(table, ctypes.byref(numbers), *buffer) == 0, said.value
    assert engine.ctrlab_table_release(table, *buffer) == 0
    return numbers


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(folder, container, the table's name, keys, answers): a model with 50,000 rows of 64 numbers, 13 MB."""
    model = trained(dim=64)
    (table,) = embedding_variables(model)
    state = table.state()
    rows = np.random.default_rng(1).normal(size=(WIDE, 64)).astype(np.float32)
    ones = np.ones(WIDE, np.int64)
    state.keys, state.values, state.frequencies, state.steps = np.arange(WIDE) - 100, rows, ones, ones
    state.slots = {}
    table.load_state(state)
    path, tables = tmp_path_factory.mktemp("served"), served(model)
    export(model, path, tables)
    return str(path), tables.container, table.name, KEYS, model.predict(KEYS, verbose=0)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


class Session:
    """The SavedModel in a session of its own."""

    def __init__(self, path):
        self.session = tf.compat.v1.Session(graph=tf.Graph())
        with self.session.graph.as_default():
            signature = tf.compat.v1.saved_model.load(self.session, ["serve"], path).signature_def["serving_default"]
        (given,), (self.out,) = signature.inputs.values(), signature.outputs.values()
        self.serve = self.session.make_callable(self.out.name, [given.name])

    def close(self):
        self.session.close()
        del self.session, self.serve


class Loaded:
    """The SavedModel as Python loads it."""

    def __init__(self, path):
        self.model = tf.saved_model.load(path)

    def serve(self, keys):
        return self.model.serve(tf.constant(keys)).numpy()

    def close(self):
        del self.model


@pytest.mark.parametrize("kinds", [(Session, Session), (Loaded, Loaded), (Session, Loaded)])
def test_those_who_load_it_share_its_rows_and_the_last_lets_them_go(exported, kinds):
    path, container, name, keys, answers = exported
    assert figures(container, name) is None
    first = kinds[0](path)
    np.testing.assert_allclose(first.serve(keys), answers, rtol=1e-5)
    once = figures(container, name)
    assert (once.rows, once.dim, once.hits, once.misses) == (WIDE, 64, keys.size, 0)
    second = kinds[1](path)
    np.testing.assert_allclose(second.serve(keys), answers, rtol=1e-5)
    both = figures(container, name)
    assert (both.rows, both.bytes, both.hits) == (WIDE, once.bytes, 2 * keys.size)
    first.close()
    gc.collect()
    np.testing.assert_allclose(second.serve(keys), answers, rtol=1e-5)
    assert figures(container, name).hits == 3 * keys.size
    second.close()
    gc.collect()
    assert figures(container, name) is None


def test_memory_holds_the_rows_once(exported):
    path, container, name, keys, _ = exported
    some = [Session(path) for _ in range(2)]  # whatever TensorFlow allocates at first
    of_the_table = figures(container, name).bytes
    before = resident()
    some += [Session(path) for _ in range(6)]
    assert [np.shape(session.serve(keys)) for session in some] == [(len(keys), 1)] * 8
    assert resident() - before < 2 * of_the_table
    for session in some:
        session.close()
    assert figures(container, name) is None


def test_sessions_that_open_answer_and_close_at_once(exported):
    path, container, name, keys, answers = exported

    def serve(_):
        for _ in range(4):
            session = Session(path)
            for _ in range(5):
                np.testing.assert_allclose(session.serve(keys), answers, rtol=1e-5)
            session.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(serve, range(4)))
    assert figures(container, name) is None


def test_two_exports_are_two_tables(tmp_path):
    model = trained()
    (table,) = embedding_variables(model)
    first, second = served(model), served(model)
    assert first.container != second.container
    export(model, tmp_path / "first", first)
    before = model.predict(KEYS, verbose=0)
    state = table.state()
    state.values = 2 * state.values
    table.load_state(state)
    export(model, tmp_path / "second", second)
    old, new = Session(str(tmp_path / "first")), Session(str(tmp_path / "second"))
    np.testing.assert_allclose(old.serve(KEYS), before, rtol=1e-5)
    np.testing.assert_allclose(new.serve(KEYS), model.predict(KEYS, verbose=0), rtol=1e-5)
    assert np.abs(new.serve(KEYS) - old.serve(KEYS)).max() > 1e-3
    old.close()
    new.close()


def train(handle):
    """Calls that would change a table with rows of 4 numbers."""
    ops, rows = _native.library().ops, tf.IndexedSlices(tf.ones([1, 4]), tf.constant([1], tf.int64))
    table = SimpleNamespace(name="users", dim=4, resource_handle=handle)
    rule = Rule("sgd")
    yield lambda: step(rule, [(table, rows)], tf.constant(0.1), tf.constant(1, tf.int64))
    yield lambda: ops.ctrlab_embedding_set_slots(handle=handle, slot_names=["m"], initial=[0.0])
    yield lambda: ops.ctrlab_embedding_evict(handle=handle, rule="norm", step=1, limit=tf.constant(1.0, tf.float64))


def test_what_is_served_is_not_trained():
    table = EmbeddingVariable("users", 4)
    handles = [table.make(None, None, "a container", "users") for _ in range(2)]
    for attempt in train(handles[0]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"is served, to all who have loaded .* by deltas"):
            attempt()
    assert figures("a container", "users").rows == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"8 numbers .*container"):
        EmbeddingVariable("users", 8).make(None, None, "a container", "users")
    handles.clear()
    del attempt  # which has one of them, too
    gc.collect()
    assert figures("a container", "users") is None
