"""Batch normalisation of a ReLU: stock and fused against the reference, values, statistics and gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab.ops import batch_norm

IMPLEMENTATIONS = batch_norm.OP.ways


@pytest.fixture(params=IMPLEMENTATIONS)
def norm(request):
    return IMPLEMENTATIONS[request.param]


def inputs(rows, columns, seed=0, offset=0.0):
    """product, bias, scale, shift, moving mean, moving variance; and d_out."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    product = draw(rows, columns) + np.float32(offset)
    return (product, draw(columns), draw(columns), draw(columns), draw(columns), draw(columns) ** 2), draw(rows, columns)


def answers(norm, arrays, d_out):
    """out, new mean, new variance, d_product, d_bias, d_scale, d_shift."""
    tensors = [tf.constant(a) for a in arrays]
    with tf.GradientTape() as tape:
        tape.watch(tensors[:4])
        out, mean, variance = norm(*tensors)
    return out, mean, variance, *tape.gradient(out, tensors[:4], output_gradients=tf.constant(d_out))


def check(norm, arrays, d_out):
    product, bias, scale = arrays[:3]
    expected = *batch_norm.OP.reference(*arrays), *batch_norm.OP.reference_gradient(*arrays, d_out=d_out)
    a = np.maximum(product + bias, 0)
    # What a sum cancels: a column far from zero loses low bits in a - mean, and a gradient loses those of its large terms.
    steep = np.abs(scale) / np.sqrt(a.var(0) + batch_norm.EPSILON) if len(a) else np.abs(scale)
    reach = (a / np.sqrt(a.var(0) + batch_norm.EPSILON)).max(initial=1)
    d_size = np.linalg.norm(steep * np.abs(d_out)) * reach**2
    sizes = [np.linalg.norm(e) for e in expected]
    sizes[0] += np.linalg.norm(a * steep)
    sizes[3:] = [s + d_size * np.sqrt(len(a)) for s in sizes[3:]]
    # A moving mean is a sum of two terms that may cancel; either is as exact as its own size.
    sizes[1] += np.linalg.norm(arrays[4])
    names = "out", "new_mean", "new_variance", "d_product", "d_bias", "d_scale", "d_shift"
    for name, received, wanted, size in zip(names, answers(norm, arrays, d_out), expected, sizes):
        assert received.shape == wanted.shape, name
        # 1 - momentum in float32 is itself wrong by 1e-6.
        assert np.linalg.norm(received - wanted) <= (2e-6 if name.startswith("new_") else 1e-6) * size, name


def test_the_definition_term_by_term():
    #   a = [0, 2], [4, 2]: means 2, 2; variances 4, 0
    product, bias = np.array([[-7.0, 1], [3, 1]]), np.array([1.0, 1])
    scale, shift = np.array([10.0, 5]), np.array([100.0, 7])
    out, mean, variance = batch_norm.OP.reference(
        product, bias, scale, shift, np.zeros(2), np.ones(2), epsilon=0.0001, momentum=0.5
    )
    np.testing.assert_allclose(out, [[100 - 10, 7], [100 + 10, 7]], rtol=1e-4)
    np.testing.assert_array_equal(mean, [1, 1])
    np.testing.assert_array_equal(variance, [0.5 * 1 + 0.5 * 4, 0.5 * 1 + 0.5 * 0])


@pytest.mark.parametrize("rows,columns,offset", [(1, 5, 0), (2, 1, 0), (9, 17, -50), (300, 67, 0), (64, 64, 5), (33, 130, 0)])
def test_adversarial_batches(norm, rows, columns, offset):
    check(norm, *inputs(rows, columns, offset=offset))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70), st.integers(1, 90), st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_fused_is_the_reference_on_any_batch(rows, columns, offset, seed):
    check(batch_norm.fused, *inputs(rows, columns, seed, offset))


def test_a_batch_of_no_rows_moves_nothing():
    arrays, d_out = inputs(0, 5)
    out, mean, variance, d_product, *d_vectors = answers(batch_norm.fused, arrays, d_out)
    assert out.shape == d_product.shape == (0, 5)
    np.testing.assert_array_equal(mean, arrays[4])
    np.testing.assert_array_equal(variance, arrays[5])
    assert not np.any(d_vectors)


def test_a_column_without_spread_gets_its_shift():
    arrays, d_out = inputs(40, 3)
    arrays[0][:] = 3
    out, _, _, d_product, *_ = answers(batch_norm.fused, arrays, d_out)
    # The mean of equal numbers may be off by a bit, and 1 / sqrt(epsilon) = 32 makes more of it.
    np.testing.assert_allclose(out, np.broadcast_to(arrays[3], (40, 3)), atol=5e-4)
    assert np.all(np.isfinite(d_product))


@pytest.mark.parametrize("rows,columns", [(512, 512), (128, 32)])
def test_fused_is_stock_at_the_models_sizes(rows, columns):
    arrays, d_out = inputs(rows, columns)
    for received, expected in zip(answers(batch_norm.fused, arrays, d_out), answers(batch_norm.baseline, arrays, d_out)):
        assert np.linalg.norm(received - expected) <= 2e-6 * np.linalg.norm(expected)


def test_what_is_not_a_number_stays_in_its_column(norm):
    arrays, _ = inputs(5, 20)
    arrays[0][1, 18] = np.nan
    out, mean, variance = norm(*arrays)
    for found in (out, mean, variance):
        assert set(np.argwhere(np.isnan(found))[:, -1]) == {18}


def test_stock_is_keras():
    arrays, _ = inputs(30, 4)
    product, bias, scale, shift, mean, variance = arrays
    layer = keras.layers.BatchNormalization()
    layer.build((None, 4))
    layer.set_weights([scale, shift, mean, variance])
    expected = layer(tf.nn.relu(product + bias), training=True)
    out, mean, variance = batch_norm.baseline(*(tf.constant(a) for a in arrays))
    np.testing.assert_allclose(out, expected, atol=1e-6)
    np.testing.assert_allclose(mean, layer.moving_mean, rtol=1e-6)
    np.testing.assert_allclose(variance, layer.moving_variance, rtol=1e-6)


def test_fused_gives_the_same_bits_each_time():
    arrays, d_out = inputs(512, 200)
    first, *others = [answers(batch_norm.fused, arrays, d_out) for _ in range(4)]
    for other in others:
        for a, b in zip(first, other):
            np.testing.assert_array_equal(a, b)


def test_fused_works_in_a_traced_function_of_unknown_batch_size():
    arrays, _ = inputs(5, 3)
    graph = tf.function(lambda p: batch_norm.fused(p, *arrays[1:]), input_signature=[tf.TensorSpec([None, 3])])
    assert [t.shape.as_list() for t in graph.get_concrete_function().outputs] == [[None, 3], [3], [3]]
    np.testing.assert_allclose(graph(arrays[0])[0], batch_norm.OP.reference(*arrays)[0], atol=1e-5)


REFUSED = {
    "a product of rank 1": (dict(product=np.zeros(3)), "rank 2|matrix"),
    "a bias of another size": (dict(bias=np.zeros(2)), r"must be equal|bias must be \[3\]; received \[2\]"),
    "a scale of another rank": (dict(scale=np.zeros((3, 1))), r"rank 1|scale must be \[3\]; received \[3,1\]"),
    "a shift of another size": (dict(shift=np.zeros(4)), r"must be equal|shift must be \[3\]; received \[4\]"),
    "moving statistics of another size": (dict(moving_mean=np.zeros(1)), r"must be equal|moving_mean must be \[3\]"),
    "an epsilon of 0": (dict(epsilon=0.0), "epsilon must be positive.*received 0"),
    "a momentum past 1": (dict(momentum=1.5), r"momentum must be in \[0, 1\]; received 1.5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case):
    change, message = REFUSED[case]
    vectors = dict.fromkeys(["bias", "scale", "shift", "moving_mean", "moving_variance"], np.zeros(3))
    raw = {"product": np.zeros((2, 3))} | vectors | {"epsilon": 1e-3, "momentum": 0.9} | change
    tensors = {name: tf.constant(v, tf.float32) if isinstance(v, np.ndarray) else v for name, v in raw.items()}
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        batch_norm.fused(**tensors)


def test_a_gradient_of_another_shape_is_refused():
    from ctrlab import _native

    vectors = dict.fromkeys(["bias", "scale", "mean", "variance"], tf.zeros(3))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"d_out must be \[2,3\]; received \[1,3\]"):
        _native.library().ops.ctrlab_batch_norm_gradient(
            product=tf.zeros((2, 3)), d_out=tf.zeros((1, 3)), epsilon=1e-3, **vectors
        )
