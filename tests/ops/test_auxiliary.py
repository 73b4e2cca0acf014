"""DIEN's auxiliary loss beside `test_op.py`: what the definition means, any batch, bits, refusals."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from on_tensors import flat_auxiliary

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops import auxiliary
from ctrlab.ops.references.arrays import Events

IMPLEMENTATIONS = {name: flat_auxiliary(way) for name, way in auxiliary.OP.ways.items()}


def inputs(lengths=(3, 0, 1, 2, 5), hidden=4, width=3, units=(6, 5, 1), seed=0):
    """interests, clicked, skipped, splits, scale, shift, layers; NumPy float64."""
    rng = np.random.default_rng(seed)
    events, sizes = sum(lengths), (hidden + width, *units)
    vectors = [rng.normal(size=(events, n)) for n in (hidden, width, width)]
    layers = [(rng.normal(size=(i, o)) * 0.5, rng.normal(size=o) * 0.1) for i, o in zip(sizes, units)]
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return *vectors, splits, rng.normal(size=sizes[0]), rng.normal(size=sizes[0]), layers


def tensors(interests, clicked, skipped, splits, scale, shift, layers):
    vectors = [tf.constant(x, tf.float32) for x in (interests, clicked, skipped)]
    rest = tf.nest.map_structure(lambda x: tf.constant(x, tf.float32), (scale, shift, layers))
    return *vectors, tf.constant(splits), *rest


def loss_of(name, interests, clicked, skipped, splits, *weights):
    return IMPLEMENTATIONS[name](interests, clicked, skipped, splits, *weights)


def gradients(name, *case):
    """The loss, and its gradient of everything but the splits."""
    interests, clicked, skipped, _, scale, shift, layers = case
    sources = [interests, clicked, skipped, scale, shift, *tf.nest.flatten(layers)]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        loss = loss_of(name, *case)
    return [loss, *(tf.convert_to_tensor(g) for g in tape.gradient(loss, sources, unconnected_gradients="zero"))]


def test_reference_by_hand():
    # One linear layer that reads the event alone: logits are the events themselves.
    clicked, skipped = np.array([[9.0], [2.0], [9.0]]), np.array([[9.0], [1.0], [9.0]])
    kernel = np.array([[0.0], [1.0]])
    events = (Events.of([2, 1], x) for x in (np.ones((3, 1)), clicked, skipped))
    found = auxiliary.OP.reference(*events, 1.0, 0.0, [(kernel, np.zeros(1))])
    assert found == pytest.approx(np.log1p(np.exp(-2)) + np.log1p(np.exp(1)))


@st.composite
def cases(draw):
    lengths = draw(st.lists(st.integers(0, 40), max_size=6))
    units = (*draw(st.lists(st.integers(1, 40), max_size=3)), 1)
    return inputs(lengths, draw(st.integers(1, 40)), draw(st.integers(1, 40)), units, draw(st.integers(0, 99)))


@settings(max_examples=40, deadline=None)
@given(cases())
def test_fused_is_the_baseline_on_any_batch(case):
    for received, expected in zip(gradients("fused", *tensors(*case)), gradients("baseline", *tensors(*case))):
        assert received.shape == expected.shape
        assert float(tf.norm(received - expected)) <= 2e-5 * float(tf.norm(expected)) + 1e-6


def test_fused_gradient_grows_with_what_is_made_of_the_loss():
    case = tensors(*inputs())
    with tf.GradientTape() as tape:
        tape.watch(case[0])
        loss = 3.0 * loss_of("fused", *case)
    np.testing.assert_allclose(tape.gradient(loss, case[0]), 3.0 * gradients("fused", *case)[1], rtol=1e-6)


def test_fused_gives_the_same_bits_each_time():
    lengths = np.random.default_rng(0).integers(0, 12, 300)
    case = tensors(*inputs(tuple(lengths), 36, 36, (100, 50, 1)))
    first, *others = [gradients("fused", *case) for _ in range(4)]
    for other in others:
        for a, b in zip(first, other):
            np.testing.assert_array_equal(a, b)


REFUSED = {
    "splits that go down": (dict(splits=[0, 5, 4]), "not go down; received 4 after 5 in row 1"),
    "splits that end early": (dict(splits=[0, 1, 3]), "end at its 4.*received 3"),
    "no splits": (dict(splits=[]), "splits"),
    "interests of other events": (dict(interests=[3, 2]), "Interests must be \\[N, H\\].*received \\[3,2\\]"),
    "negatives of other events": (dict(skipped=[3, 3]), "received \\[4,2\\], \\[4,3\\] and \\[3,3\\]"),
    "events of rank 1": (dict(clicked=[4], skipped=[4]), "received \\[4,2\\], \\[4\\]"),
    "a kernel of other inputs": (dict(kernel=[4, 1]), "layer 0 must be \\[5, units\\]; received \\[4,1\\]"),
    "two logits": (dict(kernel=[5, 2], bias=[2]), "one number; received 2"),
}
SHAPES = dict(interests=[4, 2], clicked=[4, 3], skipped=[4, 3], kernel=[5, 1], bias=[1])


@pytest.mark.parametrize("case", REFUSED)
def test_bad_inputs_are_refused(case):
    change, message = REFUSED[case]
    raw = {k: tf.zeros(v) for k, v in (SHAPES | {k: v for k, v in change.items() if k != "splits"}).items()}
    kernels, biases = [raw.pop("kernel")], [raw.pop("bias")]
    splits = tf.constant(change.get("splits", [0, 1, 4]), tf.int64)
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        _native.library().ops.ctrlab_auxiliary(**raw, splits=splits, kernels=kernels, biases=biases)


def test_no_layer_is_refused():
    with pytest.raises(CtrlabError, match="no layers"):
        IMPLEMENTATIONS["fused"](*[tf.zeros([0, 1])] * 3, tf.constant([0], tf.int64), tf.zeros(2), tf.zeros(2), [])
