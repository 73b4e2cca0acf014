"""Bias and activation, PReLU, affine: stock and fused against the reference, values and gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops import pointwise
from ctrlab.ops.references.pointwise import KINDS, SLOPED


def inputs(kind, rows, columns, seed=0, factor=1.0):
    """x, shift, slope (or None), d_out."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    slope = draw(columns) if kind in SLOPED else None
    return np.float32(factor) * draw(rows, columns), draw(columns), slope, draw(rows, columns)


def answers(op, kind, x, shift, slope, d_out):
    tensors = [tf.constant(a) for a in (x, shift, slope) if a is not None]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        out = op(kind, *tensors)
    return out, *tape.gradient(out, tensors, output_gradients=tf.constant(d_out))


def check(op, kind, x, shift, slope, d_out):
    expected = [
        pointwise.OP.reference(kind, x, shift, slope),
        *pointwise.OP.reference_gradient(kind, x, shift, slope, d_out=d_out),
    ]
    terms = np.linalg.norm(d_out) * (1 + np.abs(x).max(initial=0) + (0 if slope is None else np.abs(slope).max(initial=0)))
    for name, received, wanted in zip(("out", "d_x", "d_shift", "d_slope"), answers(op, kind, x, shift, slope, d_out), expected):
        assert received.shape == wanted.shape, name
        size = np.linalg.norm(wanted) + (np.sqrt(len(x)) * terms if name.startswith("d_") else np.linalg.norm(x))
        assert np.linalg.norm(received - wanted) <= 1e-6 * size, name


def test_the_definition_term_by_term():
    x, shift, slope = np.array([[-3.0, 1.0]]), np.array([1.0, 1.0]), np.array([0.5, 10.0])
    assert pointwise.OP.reference("relu", x, shift).tolist() == [[0, 2]]
    assert pointwise.OP.reference("prelu", x, shift, slope).tolist() == [[-1, 2]]
    assert pointwise.OP.reference("affine", x, shift, slope).tolist() == [[-0.5, 11]]


@pytest.mark.parametrize("op", [pointwise.baseline, pointwise.fused])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows,columns,factor", [(0, 5, 1), (1, 1, 1), (9, 17, 60), (300, 67, 1), (33, 130, 1)])
def test_adversarial_batches(op, kind, rows, columns, factor):
    check(op, kind, *inputs(kind, rows, columns, factor=factor))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 70), st.integers(1, 90), st.integers(0, 2**32 - 1))
def test_fused_is_the_reference_on_any_batch(kind, rows, columns, seed):
    check(pointwise.fused, kind, *inputs(kind, rows, columns, seed))


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_that_others_need_are_left_alone(kind):
    x, shift, slope, _ = inputs(kind, 64, 64)
    kept = tf.constant(x)
    graph = tf.function(lambda x: (pointwise.fused(kind, x, shift, slope), x * 1.0))
    _, same = graph(kept)
    np.testing.assert_array_equal(kept, x)
    np.testing.assert_array_equal(same, x)


def test_prelu_is_keras():
    x, _, slope, _ = inputs("prelu", 30, 4)
    layer = keras.layers.PReLU()
    layer.build((None, 4))
    layer.set_weights([slope])
    np.testing.assert_allclose(pointwise.baseline("prelu", x, tf.zeros(4), slope), layer(x), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_fused_works_in_a_traced_function_of_unknown_batch_size(kind):
    x, shift, slope, _ = inputs(kind, 5, 3)
    graph = tf.function(lambda x: pointwise.fused(kind, x, shift, slope), input_signature=[tf.TensorSpec([None, 3])])
    assert graph.get_concrete_function().output_shapes.as_list() == [None, 3]
    np.testing.assert_allclose(graph(x), pointwise.OP.reference(kind, x, shift, slope), atol=1e-5)


@pytest.mark.parametrize("op", [pointwise.baseline, pointwise.fused])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_a_number_stays_so(op, kind):
    x, shift, slope, _ = inputs(kind, 3, 20)
    x[1, 18] = np.nan
    assert np.argwhere(np.isnan(op(kind, x, shift, slope))).tolist() == [[1, 18]]


def test_bad_input_is_refused():
    x = tf.zeros([2, 3])
    with pytest.raises(CtrlabError, match=r"slope .*'relu'"):
        pointwise.fused("relu", x, tf.zeros(3), tf.zeros(3))
    with pytest.raises(CtrlabError, match="'affine' was given none"):
        pointwise.baseline("affine", x, tf.zeros(3))
    with pytest.raises(CtrlabError, match="tanh"):
        pointwise.fused("tanh", x, tf.zeros(3))
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=r"shift must be \[3\]; received \[2\]"):
        pointwise.fused("relu", x, tf.zeros(2))
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=r"slope must be \[3\]; received \[1\]"):
        pointwise.fused("prelu", x, tf.zeros(3), tf.zeros(1))
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match="x must be a matrix"):
        pointwise.fused("relu", tf.zeros(3), tf.zeros(3))
    gradient = _native.library().ops.ctrlab_pointwise_gradient
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"source must be \[2,3\]; received \[1,3\]"):
        gradient(kind="relu", d_out=x, source=x[:1], shift=tf.zeros(3), slope=tf.zeros(0))
