"""MMoE's experts and mixture: stock and fused against the reference, values and gradients; every bad input refused."""

import functools
import itertools

import norm_wise
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import _native
from ctrlab.ops import experts, mixture

EXPERTS = experts.OP.ways
MIXTURES = mixture.OP.ways
close = functools.partial(norm_wise.close, within=2e-6)


def random(*shape, seed=0):
    return tf.constant(np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32))


def towers(rows, count, sizes, seed=0):
    """x, kernels, biases."""
    kernels = [random(count, i, o, seed=seed) / np.sqrt(i) for i, o in itertools.pairwise(sizes)]
    return random(rows, sizes[0], seed=seed), kernels, [random(count, 1, o, seed=seed) for o in sizes[1:]]


def check_experts(op, x, kernels, biases):
    with tf.GradientTape() as tape:
        tape.watch([x, *kernels, *biases])
        out = op(x, kernels, biases)
    d_out = random(*out.shape, seed=1)
    d_x, d_kernels, d_biases = tape.gradient(out, [x, kernels, biases], output_gradients=d_out)
    close(out, experts.OP.reference(x, kernels, biases), experts.OP.reference(*absolute(x, kernels, biases)), "out")
    expected = experts.OP.reference_gradient(x, kernels, biases, d_out)
    most = experts.OP.reference_gradient(*absolute(x, kernels, biases), tf.abs(d_out))
    close(d_x, expected[0], most[0], "d_x")
    for received, wanted, terms in zip([*d_kernels, *d_biases], [*expected[1], *expected[2]], [*most[1], *most[2]]):
        close(received, wanted, terms, "weights")


def absolute(x, kernels, biases):
    return tf.abs(x), [tf.abs(k) for k in kernels], [tf.abs(b) for b in biases]


def mixers(rows, count, tasks, inputs, width, seed=0):
    """x, experts, kernels, biases."""
    kernels = [random(inputs, count, seed=seed + k) for k in range(tasks)]
    return (
        random(rows, inputs, seed=seed),
        random(count, rows, width, seed=seed),
        kernels,
        [random(count, seed=k) for k in range(tasks)],
    )


def check_mixture(op, x, said, kernels, biases):
    with tf.GradientTape() as tape:
        tape.watch([x, said, *kernels, *biases])
        out = op(x, said, kernels, biases)
    d_out = [random(*mixed.shape, seed=k) for k, mixed in enumerate(out)]
    received = tape.gradient(out, [x, said, kernels, biases], output_gradients=d_out)
    for mixed, wanted in zip(out, mixture.OP.reference(x, said, kernels, biases)):
        close(mixed, wanted, tf.reduce_sum(tf.abs(said), 0), "out")
    expected = mixture.OP.reference_gradient(x, said, kernels, biases, d_out)
    for got, wanted in zip(tf.nest.flatten(received), tf.nest.flatten(expected)):
        close(got, wanted, np.linalg.norm(wanted) + 1 + np.size(wanted), "gradients")


def test_the_experts_term_by_term():
    x, kernel, bias = [[1.0, 2.0]], [[[1.0], [10.0]], [[-1.0], [0.0]]], [[[0.5]], [[0.5]]]
    #   relu(1 * 1 + 2 * 10 + .5), relu(1 * -1 + 2 * 0 + .5)
    np.testing.assert_array_equal(experts.OP.reference(x, [kernel], [bias]), [[[21.5]], [[0.0]]])


TOWERS = {
    "MMoE's": (128, 4, (272, 256, 192, 128, 64)),
    "one expert": (70, 1, (64, 256, 64)),
    "one layer": (5, 3, (7, 16)),
    "odd inputs": (65, 2, (77, 48, 32)),
    "one row": (1, 4, (20, 16)),
    "no rows": (0, 4, (20, 16)),
}


@pytest.mark.parametrize("case", TOWERS)
@pytest.mark.parametrize("op", EXPERTS)
def test_the_experts_are_the_reference(op, case):
    check_experts(EXPERTS[op], *towers(*TOWERS[case]))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 140),
    st.integers(1, 5),
    st.integers(1, 90),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.integers(0, 99),
)
def test_fused_experts_are_the_reference_on_any_batch(rows, count, inputs, outputs, seed):
    check_experts(experts.fused, *towers(rows, count, (inputs, *(16 * o for o in outputs)), seed))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 9), st.integers(1, 6), st.integers(1, 4), st.integers(1, 40), st.integers(1, 70), st.integers(0, 99))
def test_mixtures_are_the_reference_on_any_batch(rows, count, tasks, inputs, width, seed):
    for op in MIXTURES.values():
        check_mixture(op, *mixers(rows, count, tasks, inputs, width, seed))


def test_large_logits_do_not_overflow():
    x, said = tf.constant([[500.0]]), tf.constant([[[1.0]], [[2.0]]])
    (mixed,) = mixture.fused(x, said, [tf.constant([[1.0, -1.0]])], [tf.zeros(2)])
    np.testing.assert_array_equal(mixed, [[1.0]])


def test_what_is_not_a_number_stays_so():
    x, kernels, biases = towers(3, 2, (5, 16))
    out = experts.fused(tf.tensor_scatter_nd_update(x, [[1, 0]], [np.nan]), kernels, biases).numpy()
    assert np.isnan(out[:, 1]).all() and np.isfinite(out[:, [0, 2]]).all()


def test_fused_gives_the_same_bits_each_time():
    x, kernels, biases = towers(300, 4, (272, 256, 64))

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch([x, *kernels, *biases])
            out = experts.fused(x, kernels, biases)
        return [out, *tape.gradient(out, [x, *kernels, *biases])]

    first = gradient()
    for _ in range(3):
        for a, b in zip(first, gradient()):
            np.testing.assert_array_equal(a, b)


def test_fused_works_in_a_traced_function_of_unknown_batch_size():
    x, kernels, biases = towers(5, 3, (20, 32, 16))
    gates, own = [random(20, 3)], [random(3)]

    @tf.function(input_signature=[tf.TensorSpec([None, 20])])
    def traced(x):
        said = experts.fused(x, kernels, biases)
        assert said.shape.as_list() == [3, None, 16]
        (mixed,) = mixture.fused(x, said, gates, own)
        assert mixed.shape.as_list() == [None, 16]
        return mixed

    expected = mixture.OP.reference(x, experts.OP.reference(x, kernels, biases), gates, own)[0]
    np.testing.assert_allclose(traced(x), expected, rtol=1e-4, atol=1e-5)


GOOD = dict(x=tf.zeros([2, 3]), kernels=[tf.zeros([2, 3, 16])], biases=[tf.zeros([2, 1, 16])], hidden=[tf.zeros([2, 2, 16])])
REFUSED = {
    "x of another rank": (dict(x=tf.zeros([3])), "rank 2|x must be \\[B, I\\] with I at least 1; received \\[3\\]"),
    "a kernel of another input": (
        dict(kernels=[tf.zeros([2, 4, 16])]),
        "kernel of layer 0 must be \\[E, 3, out\\].*received \\[2,4,16\\]",
    ),
    "a kernel of another rank": (dict(kernels=[tf.zeros([3, 16])]), "rank 3|kernel of layer 0"),
    "no experts": (dict(kernels=[tf.zeros([0, 3, 16])]), "E >= 1.*received \\[0,3,16\\]"),
    "odd outputs": (dict(kernels=[tf.zeros([2, 3, 20])]), "outputs of layer 0 must be a multiple of 16; received 20"),
    "a bias of another shape": (dict(biases=[tf.zeros([2, 16])]), "bias of layer 0 must be \\[2,1,16\\]; received \\[2,16\\]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_shapes_are_refused(case):
    change, message = REFUSED[case]
    inputs = GOOD | change
    ops = _native.library().ops
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        ops.ctrlab_experts(**{name: inputs[name] for name in ("x", "kernels", "biases")})
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        ops.ctrlab_experts_gradient(**inputs, d_out=tf.zeros([2, 2, 16]))


def test_layers_of_another_number_of_experts_are_refused():
    kernels, biases = [tf.zeros([2, 3, 16]), tf.zeros([3, 16, 16])], [tf.zeros([2, 1, 16]), tf.zeros([3, 1, 16])]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"the same E .*received \[3,16,16\]"):
        experts.fused(tf.zeros([2, 3]), kernels, biases)


def test_gradients_of_other_shapes_are_refused():
    ops = _native.library().ops
    with pytest.raises(tf.errors.InvalidArgumentError, match="d_out must be \\[2,2,16\\]; received \\[2,1,16\\]"):
        ops.ctrlab_experts_gradient(**GOOD, d_out=tf.zeros([2, 1, 16]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="hidden numbers must be \\[2,2,16\\]; received \\[2,2,15\\]"):
        ops.ctrlab_experts_gradient(**GOOD | dict(hidden=[tf.zeros([2, 2, 15])]), d_out=tf.zeros([2, 2, 16]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="d_out must be \\[2,5,7\\]; received \\[2,5,6\\]"):
        ops.ctrlab_mixture_gradient(experts=tf.zeros([3, 5, 7]), gates=tf.zeros([5, 6]), d_out=tf.zeros([2, 5, 6]), tasks=2)


@pytest.mark.parametrize("said,logits", [([3, 5], [5, 6]), ([0, 5, 7], [5, 0]), ([3, 5, 7], [4, 6]), ([3, 5, 7], [5, 3])])
def test_mixtures_of_other_shapes_are_refused(said, logits):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=r"must be|rank"):
        _native.library().ops.ctrlab_mixture(experts=tf.zeros(said), logits=tf.zeros(logits), tasks=2)
