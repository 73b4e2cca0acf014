"""DIN's activation unit beside `test_op.py`: what the definition means, padding, large scores, precision, bits, refusals."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from on_tensors import flat_attention, padded_attention

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops import attention
from ctrlab.ops.references.arrays import Events

UNITS = (7, 5, 1)


def inputs(rows=4, most=6, width=3, lengths=(6, 0, 1, 4), seed=0, units=UNITS):
    rng = np.random.default_rng(seed)
    sizes = (4 * width, *units)
    layers = [(rng.normal(size=(i, o)) * 0.5, rng.normal(size=o) * 0.1) for i, o in zip(sizes, units)]
    return rng.normal(size=(rows, width)), rng.normal(size=(rows, most, width)), np.array(lengths), layers


def as_tensors(query, keys, lengths, layers):
    layers = [(tf.constant(k, tf.float32), tf.constant(b, tf.float32)) for k, b in layers]
    return tf.constant(query, tf.float32), tf.constant(keys, tf.float32), tf.constant(lengths), layers


def test_reference_by_hand():
    # One linear layer that reads q * k alone: scores are the dot products 3 and 1.
    kernel = np.concatenate([np.zeros((6, 1)), np.ones((2, 1))])
    query, keys = np.array([[1.0, 2.0]]), Events.of([2], np.array([[1.0, 1.0], [-1.0, 1.0]]))
    weights, attended = attention.OP.reference(query, keys, [(kernel, np.zeros(1))])
    e = np.exp([3.0, 1.0])
    np.testing.assert_allclose(weights.flat, e / e.sum())
    np.testing.assert_allclose(attended, [(e[:, None] * keys.flat).sum(0) / e.sum()])


def test_padding_is_never_read():
    query, keys, lengths, layers = inputs()
    loud = keys.copy()
    for row, length in enumerate(lengths):
        loud[row, length:] = 1e3
    quiet, noisy = (padded_attention(*as_tensors(query, k, lengths, layers)) for k in (keys, loud))
    np.testing.assert_array_equal(quiet, noisy)


FLAT = {name: flat_attention(way) for name, way in attention.OP.ways.items()}


@pytest.fixture(params=FLAT)
def flat(request):
    return FLAT[request.param]


def as_flat(query, keys, lengths, layers):
    """The same case as histories end to end."""
    valid = np.arange(keys.shape[1]) < np.asarray(lengths)[:, None]  # [B, T]
    splits = tf.constant(np.concatenate([[0], np.cumsum(lengths)]), tf.int64)
    query, keys, _, layers = as_tensors(query, keys[valid], lengths, layers)
    return query, keys, splits, layers


def test_flat_keeps_large_scores_finite(flat):
    query, keys, lengths, layers = inputs()
    layers[-1] = (layers[-1][0] * 1e4, layers[-1][1])
    weights, attended = flat(*as_flat(query, keys, lengths, layers))
    assert np.isfinite(weights).all() and np.isfinite(attended).all()


def gradients(implementation, query, keys, splits, layers, d_weights, d_attended):
    """weights, attended, and the gradient of everything but the splits."""
    tensors = [query, keys, *(part for layer in layers for part in layer)]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        outputs = implementation(query, keys, splits, layers)
    found = tape.gradient(outputs, tensors, output_gradients=[d_weights, d_attended])
    return [*outputs, *(tf.convert_to_tensor(g) for g in found)]


@st.composite
def cases(draw):
    rows, most = draw(st.integers(0, 6)), draw(st.integers(0, 20))
    lengths = draw(st.lists(st.integers(0, most), min_size=rows, max_size=rows))
    units = (*draw(st.lists(st.integers(1, 40), max_size=3)), 1)
    return inputs(rows, most, draw(st.integers(1, 40)), np.array(lengths, int), draw(st.integers(0, 99)), units)


@settings(max_examples=40, deadline=None)
@given(cases())
def test_fused_is_the_best_of_stock_on_any_batch(case):
    arguments = as_flat(*case)
    rng = np.random.default_rng(0)
    upstream = [tf.constant(rng.normal(size=shape), tf.float32) for shape in (len(arguments[1]), arguments[0].shape)]
    received, expected = (gradients(f, *arguments, *upstream) for f in (FLAT["fused"], FLAT["stock"]))
    # The last bias moves all of a row's scores alike: its gradient is 0, and what is computed are terms that cancelled.
    largest = max([float(tf.norm(e)) for e in expected if tf.size(e)], default=0.0)
    for r, e in zip(received, expected):
        assert r.shape == e.shape and float(tf.norm(r - e)) <= 1e-5 * max(float(tf.norm(e)), largest)


def test_fused_is_the_double_precision_gradient_at_the_contests_size():
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 30, 200)
    case = inputs(200, 30, 36, lengths, units=(80, 40, 1))
    arguments = as_flat(*case)
    upstream = tf.zeros(lengths.sum()), tf.constant(rng.normal(size=(200, 36)), tf.float32)
    double = tf.nest.map_structure(lambda x: tf.cast(x, tf.float64) if x.dtype == tf.float32 else x, (*arguments, *upstream))
    *truth, _ = gradients(FLAT["stock"], *double)
    *fused, _ = gradients(FLAT["fused"], *arguments, *upstream)
    *stock, _ = gradients(FLAT["stock"], *arguments, *upstream)
    for exact, ours, theirs in zip(truth, fused, stock):
        ours, theirs = (float(tf.norm(tf.cast(x, tf.float64) - exact) / tf.norm(exact)) for x in (ours, theirs))
        assert ours <= max(1e-6, 3 * theirs)  # as near as float32 comes


def test_fused_gives_the_same_bits_each_time():
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 12, 300)
    arguments = as_flat(*inputs(300, 12, 36, lengths, units=(80, 40, 1)))
    upstream = tf.zeros(lengths.sum()), tf.ones((300, 36))
    first, *others = [gradients(FLAT["fused"], *arguments, *upstream) for _ in range(4)]
    for other in others:
        for a, b in zip(first, other):
            np.testing.assert_array_equal(a, b)


def test_fused_is_one_op():
    query, keys, splits, layers = as_flat(*inputs(width=8))
    graph = tf.function(lambda q, k, s: FLAT["fused"](q, k, s, layers)).get_concrete_function(query, keys, splits).graph
    types = {op.type for op in graph.get_operations()} - {"Placeholder", "Const", "Identity", "NoOp"}
    assert types == {"Ctrlab>Attention"}


def test_fused_knows_its_shapes_in_a_traced_function():
    _, _, _, layers = as_flat(*inputs())

    @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([None, None]), tf.TensorSpec([None], tf.int64)])
    def traced(query, keys, splits):
        weights, attended = FLAT["fused"](query, keys, splits, layers)
        assert weights.shape.as_list() == [None] and attended.shape.as_list() == [None, 3]
        return attended

    assert traced(tf.ones([2, 3]), tf.ones([3, 3]), tf.constant([0, 1, 3], tf.int64)).shape == (2, 3)


REFUSED = {
    "splits that start late": (dict(splits=[1, 1, 4]), "start at 0; received 1"),
    "splits that go down": (dict(splits=[0, 5, 4]), "not go down; received 4 after 5 in row 1"),
    "splits that end early": (dict(splits=[0, 1, 3]), "end at its 4.*received 3"),
    "splits past the end": (dict(splits=[0, 1, 9]), "end at its 4.*received 9"),
    "splits of other rows": (dict(splits=[0, 4]), "one more than the query's 2 rows; received 2"),
    "no splits": (dict(splits=[]), "splits"),
    "keys of another width": (dict(keys=np.zeros((4, 2))), r"with one C in|must be equal"),
    "keys of rank 1": (dict(keys=np.zeros(4)), r"with one C in|rank 2"),
    "a kernel of other inputs": (
        dict(kernels=[np.zeros((11, 5)), np.zeros((5, 1))]),
        "layer 0 must be \\[12, units\\]; received \\[11,5\\]",
    ),
    "layers that do not fit": (dict(kernels=[np.zeros((12, 5)), np.zeros((4, 1))]), "layer 1 must be \\[5, units\\]"),
    "a bias of another size": (dict(biases=[np.zeros(4), np.zeros(1)]), "bias of layer 0 must be \\[5\\]; received \\[4\\]"),
    "two scores": (
        dict(kernels=[np.zeros((12, 5)), np.zeros((5, 2))], biases=[np.zeros(5), np.zeros(2)]),
        "one number; received 2",
    ),
}
RAW = dict(
    query=np.zeros((2, 3)),
    keys=np.zeros((4, 3)),
    splits=[0, 1, 4],
    kernels=[np.zeros((12, 5)), np.zeros((5, 1))],
    biases=[np.zeros(5), np.zeros(1)],
)


def raw(**change):
    values = RAW | change
    splits = tf.constant(values.pop("splits"), tf.int64)
    return tf.nest.map_structure(lambda x: tf.constant(x, tf.float32), values) | {"splits": splits}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_inputs_are_refused(case):
    change, message = REFUSED[case]
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        _native.library().ops.ctrlab_attention(**raw(**change))


@pytest.mark.parametrize("name,shape", [("weights", [3]), ("kept", [4, 15]), ("d_weights", [5]), ("d_attended", [2, 4])])
def test_a_gradients_inputs_of_another_shape_are_refused(name, shape):
    others = {"weights": [4], "kept": [4, 16], "d_weights": [4], "d_attended": [2, 3]} | {name: shape}
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must be .*; received"):
        _native.library().ops.ctrlab_attention_gradient(**raw(), **{k: tf.zeros(v) for k, v in others.items()})


def test_no_layer_is_refused():
    with pytest.raises(CtrlabError, match="no layers"):
        FLAT["fused"](tf.zeros([1, 3]), tf.zeros([0, 3]), tf.constant([0, 0], tf.int64), [])
