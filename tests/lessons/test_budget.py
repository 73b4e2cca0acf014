"""Budgets count what an answer really makes."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.lessons.budget import Budget, spend
from ctrlab.lessons.check import CheckFailed

X = tf.ones([4, 8])


def enforce(answer, *inputs, **limits):
    return Budget(rule="a test", **limits).enforce(answer, *(inputs or (X,)), next_step="think")


def test_spend_counts_ops_bytes_and_the_largest_tensor():
    spent = spend(lambda x: tf.reduce_sum(x[:, :, None] * tf.ones([1, 1, 5]), 1), X)
    assert spent.ops["Sum"] == 1 and spent.ops["Mul"] == 1
    assert spent.largest == ("Mul", (4, 8, 5)) and spent.largest_elements == 160
    assert 4 * 160 <= spent.bytes < 4 * 300


def test_shapes_are_those_of_the_run():
    ids = tf.ragged.constant([[1, 2, 3], []], dtype=tf.int64)
    assert spend(lambda r: tf.one_hot(r.to_tensor(), 10), ids).largest == ("OneHot", (2, 3, 10))


def test_an_answer_that_returns_its_input_spends_nothing():
    assert spend(lambda x: x, X).bytes == 0


def test_within_the_budget():
    enforce(lambda x: x * 2.0, largest_elements=32, bytes=4 * 32, ops={"Mul": 1})


@pytest.mark.parametrize(
    "answer, limits",
    [
        (lambda x: x[:, :, None] * tf.ones([1, 1, 2]), {"largest_elements": 32}),
        (lambda x: x * 2.0 + x * 3.0, {"bytes": 4 * 64}),
        (lambda x: x * 2.0 * 3.0, {"ops": {"Mul": 1}}),
        (lambda x: tf.map_fn(lambda row: row * 2.0, x), {}),
        (lambda x: tf.numpy_function(np.square, [x], tf.float32), {}),
        (lambda x: tf.constant(x.numpy()), {}),
        (lambda x: tf.constant(np.asarray(x)), {}),
    ],
    ids=["largest", "bytes", "ops", "loop", "python", "not traceable", "NumPy"],
)
def test_over_the_budget(answer, limits):
    with pytest.raises(CheckFailed):
        enforce(answer, **limits)


def test_a_called_function_does_not_hide_a_large_tensor():
    inner = tf.function(lambda x: tf.reduce_sum(x[:, :, None] * tf.ones([1, 1, 9]), 2))
    twice = tf.function(lambda x: inner(x) + 1.0)
    for answer in (inner, twice, lambda x: twice(x)):
        with pytest.raises(CheckFailed, match="4, 8, 9"):
            enforce(answer, largest_elements=32)
    assert not tf.config.functions_run_eagerly()


def test_a_graph_traced_before_hides_its_cost():
    inner = tf.function(lambda x: x * 2.0).get_concrete_function(X)
    with pytest.raises(CheckFailed, match="concrete function"):
        enforce(lambda x: inner(x))


def test_ops_in_called_functions_count():
    inner = tf.function(lambda x: x * 2.0)
    with pytest.raises(CheckFailed, match="Mul"):
        enforce(lambda x: inner(x), ops={"Mul": 0})


def test_many_answers_in_a_row_raise_no_warning_of_retracing(caplog):
    for _ in range(12):
        spend(lambda x: x + 1, tf.ones(3))
    assert [record.getMessage() for record in caplog.records if "retracing" in record.getMessage()] == []
