"""The norms before a step: what the step will clip by, and no trace of having asked."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_pairs import Pair, changed
from same_tables import require_same_table

from ctrlab.embedding import BloomFilter, CounterFilter, EmbeddingVariable, GlobalStepEviction, Options, Storage
from ctrlab.embedding.table import ops as table_ops
from ctrlab.ops.sparse_update import Rule

KEYS = st.lists(st.sampled_from([-1, 0, 1, np.iinfo(np.int64).min, np.iinfo(np.int64).max, *range(100, 130)]), max_size=12)
RULE = Rule("adagrad")
# The expected keys are many, so that no false positive admits a key earlier than the reference does.
ADMISSIONS = {"none": None, "counter": CounterFilter(2), "bloom": BloomFilter(2, 10_000, 1e-6)}


def slices(keys, seed, dim=3):
    rows = np.random.default_rng(seed).normal(size=(len(keys), dim)).astype("f4")
    return tf.IndexedSlices(tf.constant(rows), tf.constant(keys, tf.int64), tf.constant([0, dim], tf.int64))


def step_of(number):
    return tf.constant(number, tf.int64)


def norm_of(variable, gradient, step, rule=RULE):
    (norm,) = table_ops.norms(rule, [(variable, gradient)], step_of(step)).numpy()
    return norm


def traces(variable):
    """The statistics of a table that a user's calls change: not the place of rows, nor the memory of a table with storage."""
    facts = vars(variable.stats())
    moving = {"rows_below", "bytes", "peak_bytes"} if variable.options.storage else set()
    return {name: fact for name, fact in facts.items() if name not in moving}


def twins(tmp_path, admission, storage):
    """Two variables that are alike."""
    options = [Options(admission=admission, storage=Storage(str(tmp_path / n), 6) if storage else None) for n in ("a", "b")]
    variables = [EmbeddingVariable("items", 3, one) for one in options]
    for variable in variables:
        variable.set_slots(RULE.slots)
        variable.open_storage()
    return variables


@pytest.mark.parametrize("storage", [False, True], ids=["memory", "storage"])
@pytest.mark.parametrize("admission", ADMISSIONS)
@given(st.lists(KEYS, min_size=1, max_size=10))
@settings(max_examples=12, deadline=None)
def test_norms_are_the_references_and_leave_no_trace(storage, admission, tmp_path_factory, batches):
    asked, other = twins(tmp_path_factory.mktemp("store"), ADMISSIONS[admission], storage)
    reference = Pair(3, admission=ADMISSIONS[admission]).reference
    changed(asked), changed(other)
    for step, keys in enumerate(batches, 1):
        gradient = slices(keys, step)
        before, were = asked.state(), traces(asked)
        for _ in range(2):
            expected = reference.norm(np.array(keys, np.int64), gradient.values.numpy())
            np.testing.assert_allclose(norm_of(asked, gradient, step), expected, rtol=1e-6)
        require_same_table("after its norms", asked.state(), before)
        np.testing.assert_array_equal(asked.state().filter, before.filter)
        assert traces(asked) == were
        for variable in (asked, other):
            table_ops.step(RULE, [(variable, gradient)], 0.1, step_of(step), clip_norm=0.5)
        reference.update(np.array(keys, np.int64), gradient.values.numpy(), 0.1, step, 0.5)
        require_same_table("after a step", asked.state(), other.state())
        np.testing.assert_array_equal(asked.state().filter, other.state().filter)
    require_same_table("changes", changed(asked), changed(other))


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("admission", ADMISSIONS)
def test_a_gradient_scaled_by_its_norm_is_stepped_as_one_that_the_step_clips(graph, admission):
    """Bit for bit, so the sum is that of the step. 500 keys of 100 numbers are summed in several pieces."""
    clip, dim = 0.5, 100
    variables = [EmbeddingVariable("items", dim, Options(admission=ADMISSIONS[admission])) for _ in range(2)]
    rule, rng = Rule("sgd"), np.random.default_rng(0)

    def run(gradient, step):
        here, there = variables
        table_ops.step(rule, [(here, gradient)], 0.1, step, clip)
        length = tf.sqrt(table_ops.norms(rule, [(there, gradient)], step)[0])
        keys, _, rows = table_ops.merged_gradient(there, gradient)
        scaled = tf.IndexedSlices(rows * tf.cast(clip / tf.maximum(length, clip), tf.float32), keys)
        table_ops.step(rule, [(there, scaled)], 0.1, step)

    run = tf.function(run, reduce_retracing=True) if graph else run
    for step in range(1, 5):
        run(slices(rng.permutation(900)[:500], step, dim), step_of(step))
    require_same_table("scaled", *(variable.state() for variable in variables))
    assert variables[0].rows() > 100


def test_norms_of_several_tables_come_in_their_order():
    tables = [EmbeddingVariable(name, 1) for name in "ab"]
    rows = [tf.constant([[1.0], [2.0]]), tf.constant([[3.0], [4.0]])]
    updates = [
        (table, tf.IndexedSlices(row, tf.constant([5, 5 + t], tf.int64))) for t, (table, row) in enumerate(zip(tables, rows))
    ]
    found = table_ops.norms(Rule("sgd"), updates, step_of(1))
    assert found.dtype == tf.float64 and found.numpy().tolist() == [9.0, 25.0]
    assert [table.rows() for table in tables] == [0, 0]
    shape = tf.function(lambda: table_ops.norms(Rule("sgd"), updates, step_of(1))).get_concrete_function().output_shapes
    assert shape.as_list() == [2]


def test_norms_do_not_count_as_a_step():
    """An eviction by age goes by the last step that was taken."""
    pair = Pair(2, eviction=GlobalStepEviction(10))
    pair.update([1, 2], np.ones((2, 2)))
    norm_of(pair.variable, slices([1], 0, 2), 1_000, pair.optimizer.rule)
    assert pair.variable.evict() == 0
    assert pair.variable.state().steps.tolist() == [1, 1]


def test_rows_that_lie_below_count_and_come_up(tmp_path):
    (variable, _) = twins(tmp_path, None, storage=True)
    for step, start in enumerate(range(0, 40, 5), 1):
        table_ops.step(RULE, [(variable, slices(range(start, start + 5), start))], 0.1, step_of(step))
    below = sorted(variable.keys_below())[:4]
    assert len(below) == 4
    ones = tf.IndexedSlices(tf.ones([5, 3]), tf.constant([*below, 1_000], tf.int64))
    assert norm_of(variable, ones, 9) == 15.0
    assert variable.rows() == 40 and 1_000 not in variable.state().keys
