"""The definition of an embedding variable, term by term: every number here was computed by hand."""

import numpy as np
import pytest

from ctrlab.embedding.options import CounterFilter, GlobalStepEviction, L2Eviction, Options
from ctrlab.embedding.reference import ReferenceTable
from ctrlab.ops.sparse_update import Rule


def make(kind="sgd", **options):
    """Rows of one number that begin at 1."""
    return ReferenceTable(1, Options(**options), lambda keys: np.ones((len(keys), 1)), Rule(kind))


def update(table, keys, gradients, step, **more):
    table.update(np.array(keys, np.int64), np.array(gradients, float)[:, None], learning_rate=0.5, step=step, **more)


def read(table, *keys, training=False):
    return table.lookup(np.array(keys, np.int64), training).ravel().tolist()


def test_a_key_without_a_row_reads_its_initial_value_in_training_and_zero_in_serving():
    table = make()
    update(table, [3], [2.0], step=1)
    assert read(table, 3, 4, training=True) == [0.0, 1.0]
    assert read(table, 3, 4) == [0.0, 0.0]
    assert set(table.rows) == {3}, "a lookup makes no row"


def test_gradients_of_equal_keys_are_summed_before_the_rule():
    table = make("adagrad")
    update(table, [7, 7], [3.0, 4.0], step=1)
    assert read(table, 7) == [pytest.approx(1 - 0.5 * 7 / np.sqrt(0.1 + 49))]
    assert table.rows[7].slots["accumulator"] == pytest.approx(49.1)
    assert (table.rows[7].frequency, table.rows[7].step) == (2, 1)


def test_any_key_is_legal():
    ends = [-1, 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max]
    table = make()
    update(table, ends, [1, 2, 3, 4], step=1)
    assert read(table, *ends) == [0.5, 0.0, -0.5, -1.0]


def test_a_filter_admits_by_the_count_so_far_and_until_then_nothing_is_trained():
    table = make(admission=CounterFilter(3))
    update(table, [5, 5, 6], [1.0, 1.0, 1.0], step=1)
    assert not table.rows and table.candidates[5].count == 2 and table.candidates[6].count == 1
    assert read(table, 5, training=True) == [1.0]
    update(table, [5], [1.0], step=2)
    assert read(table, 5) == [0.5], "the step that admits it trains it, from the initial value"
    assert (table.rows[5].frequency, table.rows[5].step) == (3, 2)
    assert set(table.candidates) == {6}


def test_a_key_that_stands_for_several_occurrences_counts_as_often():
    table = make(admission=CounterFilter(3))
    update(table, [5, 6, 5], [1.0, 1.0, 2.0], step=1, times=[1, 2, 2])
    assert set(table.rows) == {5} and read(table, 5) == [-0.5], "3 in all, and the gradients as they were sent"
    assert (table.rows[5].frequency, table.candidates[6].count) == (3, 2)


def test_the_norm_before_a_step_is_over_keys_that_will_have_a_row():
    table = make(admission=CounterFilter(2))
    update(table, [1, 1, 2], [1.0, 1.0, 1.0], step=1)
    keys, gradients = np.array([1, 2, 3, 3, 4]), np.array([3.0, 4.0, 5.0, 7.0, 1000.0])[:, None]
    assert table.norm(keys, gradients) == 3**2 + 4**2 + 12**2
    assert table.norm(keys, gradients, times=[1, 1, 1, 1, 2]) == 3**2 + 4**2 + 12**2 + 1000**2
    assert set(table.rows) == {1} and table.candidates[2].count == 1, "it counts nothing"


def test_clipping_is_by_the_norm_over_keys_that_have_a_row():
    table = make(admission=CounterFilter(2))
    update(table, [1, 1, 2, 2, 3], [1.5, 1.5, 2.0, 2.0, 1000.0], step=1, clip_norm=2.5)  # norm of (3, 4): half of each
    assert read(table, 1, 2) == [1 - 0.5 * 1.5, 1 - 0.5 * 2.0]


def test_eviction_by_step_takes_rows_and_candidates_that_are_older():
    table = make(admission=CounterFilter(2), eviction=GlobalStepEviction(2))
    update(table, [1, 1, 9], [1, 1, 1], step=1)
    update(table, [2, 2, 8], [1, 1, 1], step=2)
    table.changed()
    assert table.evict(3) == 0, "two steps ago is not more than two"
    assert table.evict(4) == 1
    assert set(table.rows) == {2} and set(table.candidates) == {8}
    assert table.changed().removed.tolist() == [1, 9]
    update(table, [9], [1.0], step=5)
    assert table.candidates[9].count == 1, "its count was forgotten, too"


def test_eviction_by_norm_takes_rows_below_the_threshold():
    table = make(eviction=L2Eviction(0.25))
    update(table, [1, 2, 3], [2.0, 1.5, 1.6], step=1)  # 0, 0.25 and 0.2 are left
    assert table.evict(1) == 2
    assert set(table.rows) == {2}


def test_a_delta_holds_what_updates_touched_and_what_was_evicted_since_the_last():
    table = make(admission=CounterFilter(2), eviction=GlobalStepEviction(1))
    update(table, [1, 1, 9], [1, 1, 1], step=1)
    first = table.changed()
    assert (first.keys.tolist(), first.candidate_keys.tolist(), first.removed.tolist()) == ([1], [9], [])
    update(table, [2, 2, 8], [1, 1, 1], step=2)
    update(table, [9], [1], step=3)
    table.evict(3)
    second = table.changed()
    assert (second.keys.tolist(), second.frequencies.tolist(), second.steps.tolist()) == ([2, 9], [2, 2], [2, 3])
    assert (second.candidate_keys.tolist(), second.removed.tolist()) == ([8], [1])
    third = table.changed()
    assert not len(third.keys) and not len(third.removed)
    assert table.state().keys.tolist() == [2, 9]


def test_a_key_that_went_and_came_again_is_a_row_and_no_tombstone():
    table = make(eviction=GlobalStepEviction(1))
    update(table, [1], [1], step=1)
    table.changed()
    table.evict(5)
    update(table, [1], [1], step=6)
    delta = table.changed()
    assert delta.keys.tolist() == [1] and not len(delta.removed)
    assert delta.frequencies.tolist() == [1]
