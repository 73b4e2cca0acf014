"""GRU and AUGRU: stock against the NumPy definition, values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.ops import gru

LENGTHS = (5, 0, 1, 3)


def inputs(rows=4, most=5, width=3, hidden=2, lengths=LENGTHS, seed=0):
    rng = np.random.default_rng(seed)
    joined = width + hidden
    weights = [
        rng.normal(size=(joined, 2 * hidden)),
        rng.normal(size=2 * hidden) + 1,
        rng.normal(size=(joined, hidden)),
        rng.normal(size=hidden),
    ]
    return rng.normal(size=(rows, most, width)), np.array(lengths), weights, rng.random((rows, most))


def run_stock(x, lengths, weights, attention=None):
    x, *weights = (tf.constant(a, tf.float32) for a in (x, *weights))
    return gru.stock(x, tf.constant(lengths), *weights, None if attention is None else tf.constant(attention, tf.float32))


def test_reference_by_hand():
    # All kernels zero: r = u = 1/2 whatever comes, and the candidate is tanh(1).
    zero = np.zeros
    outputs, last = gru.reference(zero((1, 3, 1)), [2], zero((2, 2)), zero(2), zero((2, 1)), np.ones(1))
    first = 0.5 * np.tanh(1)
    second = 0.5 * first + 0.5 * np.tanh(1)
    np.testing.assert_allclose(outputs[0, :, 0], [first, second, 0])
    np.testing.assert_allclose(last, [[second]])
    # Attention 1 closes the update gate: the state is the candidate at once. Attention 0 is a plain GRU.
    ones = gru.reference(zero((1, 3, 1)), [2], zero((2, 2)), zero(2), zero((2, 1)), np.ones(1), np.ones((1, 3)))
    np.testing.assert_allclose(ones[1], [[np.tanh(1)]])


def test_agrees_with_keras_reset_before():
    x, _, weights, _ = inputs(lengths=(5, 5, 5, 5))
    gates, gates_bias, candidate, candidate_bias = (w.astype(np.float32) for w in weights)
    layer = tf.keras.layers.GRU(2, reset_after=False, return_sequences=True, return_state=True)
    layer.build(x.shape)
    # Keras keeps [update, reset, candidate], split into input and state rows.
    joined = np.concatenate([gates[:, 2:], gates[:, :2], candidate], axis=1)
    layer.set_weights([joined[:3], joined[3:], np.concatenate([gates_bias[2:], gates_bias[:2], candidate_bias])])
    outputs, last = layer(tf.constant(x, tf.float32))
    want_outputs, want_last = gru.reference(x, [5] * 4, *weights)
    np.testing.assert_allclose(outputs, want_outputs, atol=1e-5)
    np.testing.assert_allclose(last, want_last, atol=1e-5)


@pytest.mark.parametrize("attended", [False, True])
@pytest.mark.parametrize("lengths", [LENGTHS, (0, 0, 0, 0), (5, 5, 5, 5)])
def test_stock_equals_reference(lengths, attended):
    x, lengths, weights, attention = inputs(lengths=lengths)
    attention = attention if attended else None
    outputs, last = run_stock(x, lengths, weights, attention)
    want_outputs, want_last = gru.reference(x, lengths, *weights, attention)
    np.testing.assert_allclose(outputs, want_outputs, atol=1e-6)
    np.testing.assert_allclose(last, want_last, atol=1e-6)
    for row, length in enumerate(lengths):
        assert not np.any(outputs[row, length:])
        assert length or not np.any(last[row])


@pytest.mark.parametrize(("rows", "most"), [(0, 5), (3, 0), (0, 0)])
def test_empty(rows, most):
    x, lengths, weights, attention = inputs(rows, most, lengths=[0] * rows)
    for outputs, last in (run_stock(x, lengths, weights, attention), gru.reference(x, lengths, *weights, attention)):
        assert outputs.shape == (rows, most, 2)
        assert last.shape == (rows, 2)


@pytest.mark.parametrize("attended", [False, True])
def test_gradients_equal_finite_differences(attended, finite_differences):
    x, lengths, weights, attention = inputs(seed=1)
    rng = np.random.default_rng(2)
    up_outputs, up_last = rng.normal(size=(4, 5, 2)), rng.normal(size=(4, 2))
    arrays = [x, *weights, *([attention] if attended else [])]

    def scalar(implementation, up_outputs, up_last, total):
        def f(x, gates, gates_bias, candidate, candidate_bias, attention=None):
            outputs, last = implementation(x, lengths, gates, gates_bias, candidate, candidate_bias, attention)
            return total(outputs * up_outputs) + total(last * up_last)

        return f

    stock = tf.function(scalar(gru.stock, up_outputs.astype("f4"), up_last.astype("f4"), tf.reduce_sum))
    with tf.GradientTape() as tape:
        tensors = [tf.constant(a, tf.float32) for a in arrays]
        tape.watch(tensors)
        loss = stock(*tensors)
    expected = finite_differences(scalar(gru.reference, up_outputs, up_last, np.sum), arrays)
    for got, want in zip(tape.gradient(loss, tensors), expected):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
