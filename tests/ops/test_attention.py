"""DIN's activation unit: stock against the NumPy definition, values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab.ops import attention

UNITS = (7, 5, 1)


def inputs(rows=4, most=6, width=3, lengths=(6, 0, 1, 4), seed=0):
    rng = np.random.default_rng(seed)
    sizes = (4 * width, *UNITS)
    layers = [(rng.normal(size=(i, o)) * 0.5, rng.normal(size=o) * 0.1) for i, o in zip(sizes, UNITS)]
    return rng.normal(size=(rows, width)), rng.normal(size=(rows, most, width)), np.array(lengths), layers


def as_tensors(query, keys, lengths, layers):
    layers = [(tf.constant(k, tf.float32), tf.constant(b, tf.float32)) for k, b in layers]
    return tf.constant(query, tf.float32), tf.constant(keys, tf.float32), tf.constant(lengths), layers


def test_reference_by_hand():
    # One linear layer that reads q * k alone: scores are the dot products 3 and 1.
    kernel = np.concatenate([np.zeros((6, 1)), np.ones((2, 1))])
    query, keys = np.array([[1.0, 2.0]]), np.array([[[1.0, 1.0], [-1.0, 1.0], [9.0, 9.0]]])
    weights = attention.reference(query, keys, [2], [(kernel, np.zeros(1))])
    e = np.exp([3.0, 1.0])
    np.testing.assert_allclose(weights, [[*(e / e.sum()), 0.0]])


@pytest.mark.parametrize("lengths", [(6, 0, 1, 4), (0, 0, 0, 0), (6, 6, 6, 6), (1, 1, 1, 1)])
def test_stock_equals_reference(lengths):
    case = inputs(lengths=lengths)
    weights = attention.stock(*as_tensors(*case)).numpy()
    np.testing.assert_allclose(weights, attention.reference(*case), atol=1e-6)
    for row, length in zip(weights, lengths):
        assert (row[length:] == 0).all()
        assert row.sum() == pytest.approx(float(length > 0), abs=1e-6)


@pytest.mark.parametrize(("rows", "most"), [(0, 6), (3, 0), (0, 0)])
def test_empty(rows, most):
    case = inputs(rows, most, lengths=[0] * rows)
    assert attention.stock(*as_tensors(*case)).shape == (rows, most)
    assert attention.reference(*case).shape == (rows, most)


def test_large_scores_stay_finite():
    query, keys, lengths, layers = inputs()
    layers[-1] = (layers[-1][0] * 1e4, layers[-1][1])
    case = query, keys, lengths, layers
    np.testing.assert_allclose(attention.stock(*as_tensors(*case)), attention.reference(*case), atol=1e-3)


def test_padding_is_never_read():
    query, keys, lengths, layers = inputs()
    loud = keys.copy()
    for row, length in enumerate(lengths):
        loud[row, length:] = 1e3
    quiet, noisy = (attention.stock(*as_tensors(query, k, lengths, layers)) for k in (keys, loud))
    np.testing.assert_array_equal(quiet, noisy)


def test_gradients_equal_finite_differences(finite_differences):
    query, keys, lengths, layers = inputs(seed=1)
    upstream = np.random.default_rng(2).normal(size=keys.shape[:2])
    flat = [query, keys, *(part for layer in layers for part in layer)]

    def rebuild(arrays):
        return arrays[0], arrays[1], lengths, list(zip(arrays[2::2], arrays[3::2]))

    with tf.GradientTape() as tape:
        tensors = [tf.constant(a, tf.float32) for a in flat]
        tape.watch(tensors)
        loss = tf.reduce_sum(attention.stock(*rebuild(tensors)) * tf.constant(upstream, tf.float32))
    expected = finite_differences(lambda *a: (attention.reference(*rebuild(a)) * upstream).sum(), flat)
    for got, want in zip(tape.gradient(loss, tensors), expected):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
