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
    enforce(lambda x: x * 2.0, largest_elements=32, bytes=4 * (32 + 1), ops={"Mul": 1})


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


def in_a_data_set(x):
    return tf.data.Dataset.from_tensor_slices(x).map(lambda row: row[:, None] * row).batch(4).get_single_element()


def reduced_data_set(x):
    return tf.data.Dataset.from_tensor_slices(x).reduce(tf.zeros(8), lambda total, row: total + row)


def raw_for(x):
    body = tf.function(lambda i, total: total + 1.0).get_concrete_function(tf.TensorSpec([], tf.int32), tf.TensorSpec([4, 8]))
    return tf.raw_ops.For(start=0, limit=4, delta=1, input=[x], body=body)


def switched(x):
    return tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: x, lambda: x[:, :, None] * x[:, None]])


def listed(x):
    return tf.TensorArray(tf.float32, 4).unstack(x).stack()


@pytest.mark.parametrize(
    "answer, says",
    {
        in_a_data_set: "BatchDataset",
        reduced_data_set: "Dataset",
        raw_for: "For",
        switched: "Case",
        listed: "TensorList",
        lambda x: tf.while_loop(lambda y: y[0, 0] < 9, lambda y: y + 1, [x]): "While",
        lambda x: tf.cond(x[0, 0] > 0, lambda: x, lambda: -x): "If",
    }.items(),
)
def test_what_hides_its_cost_is_refused(answer, says):
    with pytest.raises(CheckFailed, match=rf"(?s)no loop, no data set.*received \w*{says}"):
        enforce(answer)


def test_a_loop_that_python_unrolls_is_refused():
    def running(x):
        total = x[0]
        for row in range(1, x.shape[0]):
            total = total + x[row]
        return total

    enforce(running, X)
    with pytest.raises(CheckFailed, match=r"(?s)no loop that Python unrolls.*received 39\d ops"):
        enforce(running, tf.ones([200, 8]))


@pytest.mark.parametrize("unique", [tf.unique, tf.unique_with_counts, lambda x: tf.raw_ops.UniqueV2(x=x, axis=[0])])
def test_a_budget_of_an_op_counts_its_family(unique):
    enforce(unique, tf.range(3), ops={"Unique": 1})
    with pytest.raises(CheckFailed, match=r"(?s)no Unique.*received 1 Unique\w*"):
        enforce(unique, tf.range(3), ops={"Unique": 0})


def test_constants_count_wherever_they_were_made():
    outside = tf.ones([9, 9])

    def lifted(x):
        with tf.init_scope():
            table = tf.eye(9) * 2.0
        return x[0, 0] * table[0]

    for answer in (lifted, lambda x: x[0, 0] * outside[0], lambda x: x[0, 0] + tf.constant(np.ones([9, 9]), tf.float32)[0]):
        with pytest.raises(CheckFailed, match=r"(?s)no tensor above 32.*made \[9, 9\]"):
            enforce(answer, largest_elements=32)
    assert spend(lambda x, variable: x + variable, X, tf.Variable(X)).bytes == 4 * 32


def test_a_graph_traced_before_hides_its_cost():
    inner = tf.function(lambda x: x * 2.0).get_concrete_function(X)
    with pytest.raises(CheckFailed, match="concrete function"):
        enforce(lambda x: inner(x))


def test_ops_in_called_functions_count():
    inner = tf.function(lambda x: x * 2.0)
    with pytest.raises(CheckFailed, match="Mul"):
        enforce(lambda x: inner(x), ops={"Mul": 0})


@pytest.mark.parametrize(
    "free",
    [
        lambda x: tf.reshape(x, [8, 4]),
        lambda x: tf.squeeze(tf.expand_dims(x, 1), 1),
        lambda x: tf.identity(tf.stop_gradient(x)),
        lambda x: tf.raw_ops.Cast(x=x, DstT=tf.float32),
        lambda x: tf.ensure_shape(x, [4, 8]),
        lambda x: tf.reshape(x, tf.stack([tf.shape(x)[1] * 2, -1])),
        lambda x: tf.reshape(x, [tf.size(x) // 2, tf.rank(x)]),
        lambda x: (tf.constant(np.ones(4)), x)[1],
    ],
)
def test_views_shapes_and_constants_are_free(free):
    spent = spend(free, X)
    assert not spent.ops and not spent.hidden and spent.bytes < 4 * 32
    enforce(lambda x: free(free(x) * 2.0) if free(x).shape == x.shape else free(x) * 2.0, ops={"Mul": 1}, most_ops=1)


def test_a_test_that_raises_is_no_branch():
    splits = tf.constant([0, 2, 4])

    def sums(x, splits):
        return tf.reduce_sum(x) + tf.cast(tf.RaggedTensor.from_row_splits(x, splits).row_lengths()[0], tf.float32)

    assert "If" not in spend(sums, X, splits).ops and not spend(sums, X, splits).hidden


def test_an_einsum_that_sums_over_nothing_is_no_product():
    assert spend(lambda x: tf.einsum("bn,b->bn", x, x[:, 0]), X).ops["Einsum"] == 0
    assert spend(lambda x: tf.einsum("bn,bm->nm", x, x), X).ops["Einsum"] == 1
    with pytest.raises(CheckFailed, match=r"(?s)^The graph has 1 Einsum, 1 MatMul, more than 1\..*at most 1 MatMul or Einsum"):
        enforce(lambda x: tf.einsum("bn,bm->nm", x, x) @ tf.transpose(x), ops={"MatMul|Einsum": 1})


def test_many_answers_in_a_row_raise_no_warning_of_retracing(caplog):
    for _ in range(12):
        spend(lambda x: x + 1, tf.ones(3))
    assert [record.getMessage() for record in caplog.records if "retracing" in record.getMessage()] == []
