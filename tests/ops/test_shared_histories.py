"""Attention and AUGRU over shared histories beside `test_op.py`: any users, precision where queries are near, bits, refusals."""

import numpy as np
import pytest
import tensorflow as tf
from as_tensors import leaves, tensors
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab.errors import CtrlabError
from ctrlab.ops import shared_attention, shared_augru
from ctrlab.ops.events import Events
from ctrlab.ops.references.arrays import Events as Histories
from ctrlab.ops.references.arrays import normal, sigmoid_layers

SAME = 1e-6
"""Norm-wise, what the answers of a served model are held to; some numbers are near 0, so beside 1."""


def same(received, expected):
    for r, e in zip(leaves(received), leaves(expected), strict=True):
        r, e = np.asarray(r, np.float64), np.asarray(e, np.float64)
        assert r.shape == e.shape and np.linalg.norm(r - e) <= SAME * (np.linalg.norm(e) + np.sqrt(e.size))


@st.composite
def users(draw):
    """(lengths of histories, candidates of each user, a generator)."""
    drawn = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4))
    return [t for t, _ in drawn], [n for _, n in drawn], np.random.default_rng(draw(st.integers(0, 999)))


@settings(max_examples=30, deadline=None)
@given(users(), st.integers(1, 40), st.lists(st.integers(1, 40), max_size=3))
def test_attention_is_the_reference_for_any_users(drawn, width, units):
    lengths, candidates, rng = drawn
    keys = Histories.of(lengths, normal(rng, sum(lengths), width))
    layers = [(kernel / np.sqrt(len(kernel)), bias) for kernel, bias in sigmoid_layers(rng, 4 * width, *units, 1)]
    case = normal(rng, sum(candidates), width), keys, np.array(candidates, np.int64), layers
    same(shared_attention.fused(*tensors(case)), shared_attention.OP.reference(*case))


@settings(max_examples=30, deadline=None)
@given(users(), st.sampled_from([1, 3, 16, 36]), st.sampled_from([1, 3, 16, 19, 36]))
def test_the_augru_is_the_reference_for_any_users(drawn, width, hidden):
    lengths, candidates, rng = drawn
    joined, pairs = width + hidden, int(np.dot(lengths, candidates))
    kernels = [normal(rng, joined, columns, scale=joined**-0.5) for columns in (2 * hidden, hidden)]
    x = Histories.of(lengths, normal(rng, sum(lengths), width))
    weights = kernels[0], normal(rng, 2 * hidden), kernels[1], normal(rng, hidden)
    case = x, np.array(candidates, np.int64), *weights, np.abs(np.tanh(normal(rng, pairs)))
    same(shared_augru.fused(*tensors(case)), shared_augru.OP.reference(*case))


@pytest.mark.parametrize("length", [5, 50], ids=["candidates in lanes", "events in lanes"])
@pytest.mark.parametrize("distance", [1e-3, 0.1, 0.45, 0.55])
def test_the_promised_error_where_queries_are_near_an_event(length, distance):
    width, candidates, rng = 36, 20, np.random.default_rng(0)
    keys = normal(rng, length, width) + 100
    query = keys[rng.integers(0, length, candidates)]
    query = (query + distance * 100 * normal(rng, candidates, width)).astype(np.float32).astype(np.float64)
    kernel = normal(rng, 4 * width, 1)
    kernel[: 2 * width] *= 0.01  # the layer reads little but how far the two are apart
    kernel[3 * width :] *= 1e-4
    case = query, Histories.of([length], keys), np.array([candidates]), [(kernel, np.zeros(1))]
    # With one layer, logarithms of weights are scores up to a number per candidate.
    scores = np.log(np.asarray(shared_attention.fused(*tensors(scaled(case)))[0], np.float64)).reshape(candidates, length)
    q, k = query[:, None], keys[None]
    parts = [np.broadcast_to(part, (candidates, length, width)) for part in (q, k, q - k, q * k)]
    exact = np.concatenate(parts, 2) @ kernel[:, 0] * scaled_by(case)
    norms = [np.linalg.norm(part, axis=2) * np.linalg.norm(w) for part, w in zip(parts, np.split(kernel[:, 0], 4))]
    allowed = 6 * width * 2.0**-24 * sum(norms) * scaled_by(case)
    error = (scores - scores[:, :1]) - (exact - exact[:, :1])
    assert (np.abs(error) <= allowed + allowed[:, :1] + 1e-5).all()


def scaled_by(case) -> float:
    """Brings scores to the size of 1, so that a float32 softmax keeps them."""
    query, keys, _, [(kernel, _)] = case
    q, k = query[:, None], keys.flat[None]
    return 1.0 / np.abs((q - k) @ kernel[2 * query.shape[1] : 3 * query.shape[1], 0]).max()


def scaled(case):
    query, keys, candidates, [(kernel, bias)] = case
    return query, keys, candidates, [(kernel * scaled_by(case), bias)]


def good():
    """Two users, of one and two events, of three and one candidates."""
    splits, candidates = tf.constant([0, 1, 3], tf.int64), tf.constant([3, 1], tf.int64)
    layers = [(tf.zeros([8, 1]), tf.zeros([1]))]
    attention = dict(query=tf.zeros([4, 2]), keys=Events(splits, flat=tf.zeros([3, 2])), candidates=candidates, layers=layers)
    weights = dict(gates_kernel=tf.zeros([5, 6]), gates_bias=tf.zeros([6]), candidate_kernel=tf.zeros([5, 3]))
    augru = dict(x=attention["keys"], candidates=candidates, **weights, candidate_bias=tf.zeros([3]), attention=tf.zeros([5]))
    return {"attention": (shared_attention.fused, attention), "augru": (shared_augru.fused, augru)}


def counts(*numbers):
    return {"candidates": tf.constant(numbers, tf.int64)}


REFUSED = {
    "candidates of too many users": ("attention", counts(3, 1, 0), r"must be \[2\], one number per history; received \[3\]"),
    "candidates below 0": ("attention", counts(5, -1), r"in \[0, 2\^31\); received -1 for user 1"),
    "candidates past all bounds": ("augru", counts(2**40, 1), r"in \[0, 2\^31\); received 1099511627776 for user 0"),
    "candidates of another sum": ("attention", counts(3, 2), "sum to the query's 4 rows; received a sum of 5"),
    "a query of another width": ("attention", {"query": tf.zeros([4, 3])}, "must be equal|one C"),
    "a layer of another width": ("attention", {"layers": [(tf.zeros([6, 1]), tf.zeros([1]))]}, r"layer 0 must be \[8, units\]"),
    "no layer": ("attention", {"layers": []}, "received no layers"),
    "attention of other pairs": ("augru", {"attention": tf.zeros([6])}, r"of each pair.* must be \[5\]; received \[6\]"),
    "a kernel of another shape": ("augru", {"gates_kernel": tf.zeros([4, 6])}, r"gates' kernel must be \[5,6\]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_inputs_are_refused(case):
    op, change, message = REFUSED[case]
    fused, arguments = good()[op]
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError, CtrlabError), match=message):
        fused(**arguments | change)


@pytest.mark.parametrize("op", ["attention", "augru"])
def test_a_gradient_is_refused_in_one_sentence(op):
    fused, arguments = good()[op]
    given = arguments["query" if op == "attention" else "attention"]
    with tf.GradientTape() as tape:
        tape.watch(given)
        outputs = fused(**arguments)
    with pytest.raises(CtrlabError, match="serves and has no gradient"):
        tape.gradient(outputs, given)


@pytest.mark.parametrize("op", [shared_attention.OP, shared_augru.OP], ids=lambda op: op.name)
def test_the_same_bits_each_time(op):
    case = tensors(op.cases(np.random.default_rng(0))["random"])
    first, *others = [leaves(op.fused(*case)) for _ in range(3)]
    for other in others:
        for a, b in zip(first, other):
            np.testing.assert_array_equal(a, b)
