"""Parts of the exchange that need no other worker: what is asked for, what came, and lookups in fetched rows."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import _native
from ctrlab.distributed import Place, Workers, collectives
from ctrlab.embedding.initial_values import hash_keys
from ctrlab.training import Run, Spec

OPS = _native.library().ops
ANY_KEY = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 6)
ROW = st.integers(-1, 2**31 - 2) | st.integers(-1, 9)


@st.composite
def questions(draw):
    """Columns of tables, and whether these grow."""
    grows, tables, workers = draw(st.booleans()), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    columns = draw(st.lists(st.lists(ANY_KEY if grows else ROW, max_size=12), min_size=1, max_size=5))
    table_of = draw(st.lists(st.integers(0, tables - 1), min_size=len(columns), max_size=len(columns)))
    return grows, tables, workers, [np.array(ids, np.int64) for ids in columns], table_of


@given(questions())
@settings(deadline=None)
def test_each_key_is_asked_once_of_its_owner(question):
    grows, tables, workers, columns, table_of = question
    asked = OPS.ctrlab_asked_keys(ids=columns, T=tables, workers=workers, table_of=table_of, grows=grows)
    keys, times, counts = (each.numpy() for each in (asked.keys, asked.times, asked.counts))
    at = 0
    for owner in range(workers):
        for table in range(tables):
            ids = [each for each, t in zip(columns, table_of) if t == table]
            ids = np.concatenate([*ids, np.zeros(0, np.int64)])
            owners = (hash_keys(ids) % np.uint64(workers)).astype(int) if grows else ids % workers
            here = ids[(owners == owner) & (grows | (ids >= 0))]
            distinct, first, how_often = np.unique(here, return_index=True, return_counts=True)
            order = np.argsort(first)
            assert counts[owner, table] == len(distinct)
            part = slice(at, at := at + len(distinct))
            np.testing.assert_array_equal(keys[part], (distinct if grows else distinct // workers)[order])
            np.testing.assert_array_equal(times[part], how_often[order])
    assert at == len(keys) == len(times)
    cell_of = np.repeat(np.arange(workers * tables), counts.reshape(-1))  # of each key: its owner and table
    for ids, table, places in zip(columns, table_of, asked.places):
        known = ids >= 0 if not grows else np.ones(len(ids), bool)
        np.testing.assert_array_equal(places[~known], -1)
        found = cell_of[places[known]]
        owner = found // tables
        np.testing.assert_array_equal(found % tables, table)
        np.testing.assert_array_equal(keys[places[known]] if grows else keys[places[known]] * workers + owner, ids[known])


@given(st.data(), st.integers(1, 4), st.integers(1, 3), st.booleans())
@settings(deadline=None)
def test_what_came_is_sorted_by_table(data, workers, tables, counted):
    counts = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 4), min_size=tables, max_size=tables), min_size=workers, max_size=workers))
    )
    size = int(counts.sum(1).max()) + data.draw(st.integers(0, 2))
    came = np.arange(workers * size * (1 + counted)).reshape(workers, size, 1 + counted)
    mine = OPS.ctrlab_keys_by_table(came=came, counts=counts.astype(np.int32), T=tables)
    slots = iter(mine.slots.numpy()[:, 0])
    for t in range(tables):
        expected = [came[w, counts[w, :t].sum() + k] for w in range(workers) for k in range(counts[w, t])]
        expected = np.array(expected, np.int64).reshape(-1, 1 + counted)
        np.testing.assert_array_equal(mine.keys[t], expected[:, 0])
        np.testing.assert_array_equal(mine.times[t], expected[:, 1] if counted else np.ones(len(expected)))
        np.testing.assert_array_equal(mine.splits[t], [0, len(expected)])
        np.testing.assert_array_equal([came.reshape(-1, 1 + counted)[next(slots), 0] for _ in expected], expected[:, 0])
    assert next(slots, None) is None


@pytest.mark.parametrize(
    "change, said",
    {
        "a row below -1": (lambda a: a | {"ids": [[0, -2]]}, "must be -1 .unknown. or in"),
        "a matrix": (lambda a: a | {"ids": [[[0]]]}, "must be a vector"),
        "a table that is not there": (lambda a: a | {"table_of": [1]}, "one of 1 tables; received 1"),
        "more workers than can be counted": (lambda a: a | {"T": 4, "workers": 2**62}, "must be below 2.31; received 4611686"),
        "more tables than can be counted": (lambda a: a | {"T": 2**62}, "must be below 2.31; received 2 and 4611686"),
        "no table for a column": (lambda a: a | {"table_of": []}, "one table a column; received 0"),
    }.values(),
)
def test_bad_questions_are_refused(change, said):
    right = {"ids": [[0, 1]], "T": 1, "workers": 2, "table_of": [0], "grows": False}
    OPS.ctrlab_asked_keys(**right)
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=said):
        OPS.ctrlab_asked_keys(**change(right))


@pytest.mark.parametrize(
    "came, counts, said",
    [
        (np.zeros((2, 3)), [[1], [1]], "must be .workers, size, 1 or 2."),
        (np.zeros((2, 3, 3)), [[1], [1]], "must be .workers, size, 1 or 2."),
        (np.zeros((2, 3, 1)), [[1]], "`counts` must be .2,1."),
        (np.zeros((2, 3, 1)), [[1], [-1]], "at least 0; received -1 of worker 1"),
        (np.zeros((2, 3, 1)), [[4], [0]], "Worker 0 sent 3 slots; its counts say 4"),
    ],
)
def test_bad_counts_are_refused(came, counts, said):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=said):
        OPS.ctrlab_keys_by_table(came=came.astype(np.int64), counts=np.array(counts, np.int32), T=1)


@given(st.integers(0, 2**30))
def test_a_size_is_rounded_up_by_an_eighth_at_the_most(size):
    found, number = collectives.padded(tf.constant(size))
    assert collectives.SIZES[int(number)] == int(found)
    assert size <= int(found) <= max(1, -(-9 * size // 8))


def test_keys_of_ops_do_not_meet():
    assert len(collectives.SIZES) <= collectives.KEYS_OF_OP
    assert collectives.BACKWARD % collectives.KEYS_OF_OP == 0 and 2 * collectives.BACKWARD == collectives.KEYS_OF_PROGRAM


@pytest.mark.parametrize(("optimizations", "dtype"), [("all", tf.float32), ("all,bf16_exchange", tf.bfloat16)])
def test_a_rung_says_in_what_rows_travel(optimizations, dtype):
    workers = Workers(Place(("localhost:1",), 0))
    with Run(Spec("deepfm", optimizations, profile="tiny"), workers):
        assert workers.rows_as == dtype
