"""One optimizer step: TensorFlow's against the NumPy definition, dense and sparse, and the definitions against known steps."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from ctrlab import _native
from ctrlab.ops import merge, sparse_update
from ctrlab.ops.references import sparse_update as definition
from ctrlab.ops.sparse_update import Rule

RULES = [
    Rule("sgd"),
    Rule("adagrad"),
    Rule("ftrl", initial_accumulator=0.1),
    Rule("ftrl", l1=0.02, l2=0.3),
    Rule("adam_async"),
    Rule("adam_async", beta1=0.5, beta2=0.9, epsilon=1e-3),
]


def named(rule):
    return f"{rule.kind}-{rule.l1}-{rule.beta1}"


@pytest.fixture(params=sparse_update.OP.ways)
def both_ways(request):
    return functools.partial(steps_of, request.param)


def steps_of(way, rule, gradients, rate=0.05, shape=(8, 3), clip=None):
    """The same steps twice: ((w, slots) by this way, (w, slots) by NumPy)."""
    start = np.random.default_rng(0).normal(size=shape)
    w = tf.Variable(start, dtype=tf.float32)
    slots = {name: tf.Variable(tf.fill(shape, value)) for name, value in rule.slots.items()}
    want, want_slots = start.copy(), {name: np.full(shape, value) for name, value in rule.slots.items()}
    for step, gradient in enumerate(gradients, start=1):
        if isinstance(gradient, tuple):
            ids, rows = gradient
            tensor = tf.IndexedSlices(tf.constant(rows, tf.float32), tf.constant(ids, tf.int64))
            tensor = merge.OP.ways[way](tensor, w.shape)
        else:
            tensor = tf.constant(gradient, tf.float32)
        sparse_update.OP.ways[way](rule, [(w, slots, tensor)], tf.constant(rate), tf.constant(float(step)), clip)
        definition.reference(rule, [(want, want_slots, gradient)], rate, step, clip)
    return (w.numpy(), {n: s.numpy() for n, s in slots.items()}), (want, want_slots)


def assert_same(got, want):
    np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=1e-6)
    for name, slot in want[1].items():
        np.testing.assert_allclose(got[1][name], slot, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_dense(both_ways, rule):
    rng = np.random.default_rng(1)
    assert_same(*both_ways(rule, [rng.normal(size=(8, 3)) for _ in range(5)]))


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("rule", RULES, ids=named)
def test_sparse_with_equal_ids(both_ways, rule, clip):
    rng = np.random.default_rng(2)
    steps = [(rng.integers(0, 5, 9), rng.normal(size=(9, 3))) for _ in range(5)]  # rows 5 to 7 are never touched
    got, want = both_ways(rule, steps, clip=clip)
    assert_same(got, want)
    np.testing.assert_array_equal(got[0][5:], np.random.default_rng(0).normal(size=(8, 3))[5:].astype(np.float32))
    for name, slot in got[1].items():
        assert (slot[5:] == np.float32(rule.slots[name])).all()


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_no_ids_change_nothing(both_ways, rule):
    got, want = both_ways(rule, [(np.zeros(0, np.int64), np.zeros((0, 3)))])
    assert_same(got, want)
    np.testing.assert_array_equal(got[0], np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32))


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_sparse_over_all_rows_is_dense(both_ways, rule):
    rows = np.random.default_rng(3).normal(size=(8, 3))
    sparse, _ = both_ways(rule, [(np.arange(8), rows)] * 3)
    dense, _ = both_ways(rule, [rows] * 3)
    assert_same(sparse, dense)


@pytest.mark.parametrize("shape", [(4, 1), (4, 8), (4, 33)], ids=str)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.kind == "ftrl"], ids=named)
def test_a_gradient_that_is_no_number_is_not_a_weight_of_zero(both_ways, rule, odd, shape):
    gradient = np.ones(shape)
    gradient[2, shape[1] // 2] = odd
    with np.errstate(invalid="ignore"):
        got, want = both_ways(rule, [(np.arange(4), gradient)], shape=shape)
        dense, _ = steps_of("fused", rule, [gradient], shape=shape)
    np.testing.assert_array_equal(np.isnan(want[0]), ~np.isfinite(gradient))
    assert_same(got, want)
    assert_same(dense, want)


def test_first_steps_by_hand():
    ids, ones = np.array([3, 3, 3, 7]), np.ones((4, 1))  # row 3 gets 3, row 7 gets 1
    moved = {}
    for kind in ("sgd", "adagrad", "adam_async"):
        rule, w = Rule(kind), np.zeros((8, 1))
        slots = {name: np.full_like(w, value) for name, value in rule.slots.items()}
        definition.reference(rule, [(w, slots, (ids, ones))], 0.1, 1)
        moved[kind] = -w[[3, 7], 0]
    np.testing.assert_allclose(moved["sgd"], [0.3, 0.1])
    np.testing.assert_allclose(moved["adagrad"], [0.1 * 3 / np.sqrt(9.1), 0.1 / np.sqrt(1.1)])
    np.testing.assert_allclose(moved["adam_async"], [0.1, 0.1], rtol=1e-6)  # Adam's first step is the rate itself


def test_clipping_scales_the_merged_gradient():
    np.testing.assert_allclose(definition.clipped(np.array([3.0, 4.0]), 1.0), [0.6, 0.8])
    np.testing.assert_allclose(definition.clipped(np.array([3.0, 4.0]), 6.0), [3, 4])
    # Opposite gradients of one id cancel before they are clipped.
    w = np.ones((2, 1))
    definition.reference(Rule("sgd"), [(w, {}, (np.array([1, 1]), np.array([[9.0], [-9.0]])))], 0.1, 1, 1.0)
    np.testing.assert_array_equal(w, 1)


def variables(*shapes, kind="adam_async"):
    """(variable, slots) of each shape, all of ones."""
    made = []
    for shape in shapes:
        made.append((tf.Variable(tf.ones(shape)), {name: tf.Variable(tf.ones(shape)) for name in Rule(kind).slots}))
    return made


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("rule", RULES, ids=named)
def test_many_variables_in_one_op_are_stepped_one_by_one(rule, clip):
    rng = np.random.default_rng(0)
    shapes = [(40, 18), (7,), (300, 65), (5, 4), (3, 2, 4)]
    gradients = [
        tf.IndexedSlices(
            tf.constant(rng.normal(size=(9, 18)), tf.float32), tf.constant(rng.integers(0, 40, 9)), tf.constant([40, 18])
        ),
        tf.constant(rng.normal(size=(7,)), tf.float32),
        tf.constant(rng.normal(size=(300, 65)), tf.float32),
        tf.IndexedSlices(tf.zeros((0, 4)), tf.zeros(0, tf.int64), tf.constant([5, 4])),
        tf.constant(rng.normal(size=(3, 2, 4)), tf.float32),
    ]
    together, alone = variables(*shapes, kind=rule.kind), variables(*shapes, kind=rule.kind)
    one, rate = tf.constant(1.0), tf.constant(0.1)
    gradients = [merge.fused(g, s) if isinstance(g, tf.IndexedSlices) else g for g, s in zip(gradients, shapes)]
    sparse_update.fused(rule, [(w, slots, g) for (w, slots), g in zip(together, gradients)], rate, one, clip)
    for (w, slots), gradient in zip(alone, gradients):
        sparse_update.baseline(rule, [(w, slots, gradient)], rate, one, clip)
    for (w, slots), (expected, expected_slots) in zip(together, alone):
        np.testing.assert_allclose(w, expected, rtol=3e-5, atol=1e-5)
        for name in slots:
            np.testing.assert_allclose(slots[name], expected_slots[name], rtol=3e-5, atol=1e-5)


def test_who_holds_a_variables_value_keeps_it():
    """A read shares the variable's memory until somebody writes."""
    ((w, slots),) = variables((6, 3))
    before, slot_before = w.read_value(), slots["m"].read_value()
    sparse_update.fused(Rule("adam_async"), [(w, slots, tf.ones((6, 3)))], tf.constant(0.1), tf.constant(1.0))
    np.testing.assert_array_equal(before, np.ones((6, 3)))
    np.testing.assert_array_equal(slot_before, np.ones((6, 3)))
    assert (w.numpy() < 1).all()


def raw_step(**changes):
    (w, slots), dense = variables((8, 3))[0], tf.Variable(tf.ones(2))
    m, v = slots["m"], slots["v"]
    inputs = dict(
        variables=[w.handle, dense.handle],
        slots=[m.handle, v.handle, tf.Variable(tf.ones(2)).handle, tf.Variable(tf.ones(2)).handle],
        ids=[tf.constant([1, 3], tf.int64)],
        gradients=[tf.ones((2, 3)), tf.ones(2)],
        learning_rate=0.1,
        step=1.0,
        numbers=tf.zeros(6, tf.float64),
        kind="adam_async",
    )
    for name, change in changes.items():
        inputs[name] = change(inputs[name]) if callable(change) else change
    _native.library().ops.ctrlab_optimizer_step(**inputs)


def an_id(*values):
    return [tf.constant(values, tf.int64)]


REFUSED = {
    "ids twice": (dict(ids=an_id(3, 3)), r"variable 0 must be in \[0, 8\), ascending, each once; received 3 after 3 at 1"),
    "ids that go down": (dict(ids=an_id(3, 1)), "received 1 after 3 at 1"),
    "an id below": (dict(ids=an_id(-1, 1)), "received -1 after -1 at 0"),
    "an id above": (dict(ids=an_id(1, 8)), "received 8 after 1 at 1"),
    "ids of another rank": (dict(ids=[tf.ones((1, 2), tf.int64)]), r"its ids are \[1,2\]"),
    "another number of rows": (dict(ids=an_id(1)), r"variable 0, a row for each id, must be \[1,3\]; received \[2,3\]"),
    "a dense gradient of another shape": (
        dict(gradients=lambda g: [g[0], tf.ones(3)]),
        r"gradient of variable 1 must be \[2\]; received \[3\]",
    ),
    "slots of another shape": (
        dict(slots=lambda s: [s[2], *s[1:2], s[0], s[3]]),
        r"slots of variable 0 must be \[8,3\]; received \[2\]",
    ),
    "the same variable twice": (dict(slots=lambda s: [s[0], s[0], *s[2:]]), "must be given once"),
    "too few slots": (dict(slots=lambda s: s[:2]), "has 2 slots a variable; received 2 for 2"),
    "a rate a row": (dict(learning_rate=tf.ones(2)), r"must be scalars; received \[2\] and \[\]"),
    "other numbers": (dict(numbers=tf.zeros(5, tf.float64)), r"must be \[6\]; received \[5\]"),
    "a double variable": (dict(variables=lambda v: [v[0], tf.Variable(tf.ones(2, tf.float64)).handle]), "variable 1 is double"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_steps_are_refused(case):
    change, message = REFUSED[case]
    raw_step()
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        raw_step(**change)
