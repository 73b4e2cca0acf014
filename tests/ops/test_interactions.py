"""DeepFM's and DLRM's interactions: stock and fused against the reference, values and gradients; every bad input refused."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from norm_wise import close

from ctrlab import _native
from ctrlab.ops import dot_interaction, factorization_machine

MACHINES = factorization_machine.OP.ways
DOTS = dot_interaction.OP.ways


def random(*shape, seed=0):
    return tf.constant(np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32))


def gradients(op, inputs, seed=1):
    """out, d_out, d_inputs."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        out = op(*inputs)
    d_out = random(*out.shape, seed=seed)
    return out, d_out, tape.gradient(out, inputs, output_gradients=d_out)


def check_machine(op, fields, dim):
    out, d_out, (d_fields,) = gradients(lambda x: op(x, dim), [fields])
    sums = np.abs(fields.numpy()).reshape(len(fields), fields.shape[1] // dim, dim).sum(axis=1)  # [B, D]
    close(out, factorization_machine.OP.reference(fields, dim), sums**2, "out")  # a difference of squares rounds at this size
    close(d_fields, factorization_machine.OP.reference_gradient(fields, dim, d_out), np.abs(d_out) * sums, "d_fields")


def check_dots(op, bottom, fields, dim):
    inputs = [fields] if bottom is None else [bottom, fields]
    out, d_out, (*d_bottom, d_fields) = gradients(lambda *x: op(None if bottom is None else x[0], x[-1], dim), inputs)
    absolute = [None if bottom is None else tf.abs(bottom), tf.abs(fields), dim]
    close(out, dot_interaction.OP.reference(bottom, fields, dim), dot_interaction.OP.reference(*absolute), "out")
    expected = dot_interaction.OP.reference_gradient(bottom, fields, dim, d_out)
    magnitude = dot_interaction.OP.reference_gradient(*absolute, tf.abs(d_out))
    close(d_fields, expected[1], magnitude[1], "d_fields")
    for received in d_bottom:
        close(received, expected[0], magnitude[0], "d_bottom")


def test_the_machine_term_by_term():
    # Fields (1, 10), (2, 20), (3, 30): 1 * 2 + 1 * 3 + 2 * 3 = 11.
    np.testing.assert_array_equal(factorization_machine.OP.reference([[1, 10, 2, 20, 3, 30]], 2), [[11, 1100]])
    np.testing.assert_array_equal(
        factorization_machine.OP.reference_gradient([[1, 10, 2, 20, 3, 30]], 2, [[1, 2]]), [[5, 100, 4, 80, 3, 60]]
    )


def test_the_dots_term_by_term():
    bottom, fields = [[1, 2]], [[3, 4, 5, 6]]
    #   the bottom itself, then (field 0, bottom), (field 1, bottom), (field 1, field 0)
    np.testing.assert_array_equal(dot_interaction.OP.reference(bottom, fields, 2), [[1, 2, 11, 17, 39]])
    np.testing.assert_array_equal(dot_interaction.OP.reference(None, fields, 2), [[39]])
    d_bottom, d_fields = dot_interaction.OP.reference_gradient(bottom, fields, 2, [[7, 8, 1, 10, 100]])
    np.testing.assert_array_equal(d_bottom, [[7 + 3 + 50, 8 + 4 + 60]])
    np.testing.assert_array_equal(d_fields, [[1 + 500, 2 + 600, 10 + 300, 20 + 400]])


SHAPES = {
    "the contest's": (33, 26, 16),
    "a large batch": (700, 26, 16),
    "one field": (3, 1, 16),
    "two fields": (3, 2, 16),
    "exactly a register of vectors": (3, 16, 16),
    "one row": (1, 26, 16),
    "no rows": (0, 26, 16),
    "one dimension": (5, 7, 1),
    "odd dimensions": (5, 19, 23),
    "many dimensions": (2, 35, 100),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", MACHINES)
def test_the_machine_is_the_reference(op, shape):
    rows, fields, dim = SHAPES[shape]
    check_machine(MACHINES[op], random(rows, fields * dim), dim)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_bottom", [True, False])
@pytest.mark.parametrize("op", DOTS)
def test_the_dots_are_the_reference(op, with_bottom, shape):
    rows, fields, dim = SHAPES[shape]
    check_dots(DOTS[op], random(rows, dim, seed=1) if with_bottom else None, random(rows, fields * dim), dim)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.integers(0, 2**32 - 1))
def test_fused_is_the_reference_on_any_batch(rows, fields, dim, with_bottom, seed):
    v = random(rows, fields * dim, seed=seed)
    check_machine(factorization_machine.fused, v, dim)
    check_dots(dot_interaction.fused, random(rows, dim, seed=seed + 1) if with_bottom else None, v, dim)


def test_what_is_not_finite_stays_in_its_row():
    fields, bottom = random(3, 26 * 16).numpy(), random(3, 16).numpy()
    fields[1, 5] = np.nan
    for out in (factorization_machine.fused(fields, 16), dot_interaction.fused(bottom, fields, 16)):
        assert np.isfinite(out.numpy()[[0, 2]]).all() and np.isnan(out.numpy()[1]).any()


def test_fused_works_in_a_traced_function_of_unknown_batch_size():
    @tf.function(input_signature=[tf.TensorSpec([None, 16]), tf.TensorSpec([None, 26 * 16])])
    def traced(bottom, fields):
        machine, dots = factorization_machine.fused(fields, 16), dot_interaction.fused(bottom, fields, 16)
        assert machine.shape.as_list() == [None, 16] and dots.shape.as_list() == [None, 16 + 27 * 26 // 2]
        assert dot_interaction.fused(None, fields, 16).shape.as_list() == [None, 26 * 25 // 2]
        return machine, dots

    bottom, fields = random(5, 16), random(5, 26 * 16)
    machine, dots = traced(bottom, fields)
    np.testing.assert_allclose(machine, factorization_machine.OP.reference(fields, 16), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(dots, dot_interaction.OP.reference(bottom, fields, 16), rtol=1e-4, atol=1e-4)


OPS = {
    "machine": lambda ops, x: ops.ctrlab_factorization_machine(fields=x["fields"], dim=x["dim"]),
    "machine's gradient": lambda ops, x: ops.ctrlab_factorization_machine_gradient(
        fields=x["fields"], d_out=x["d"], dim=x["dim"]
    ),
    "dots": lambda ops, x: ops.ctrlab_dot_interaction(bottom=x["bottom"], fields=x["fields"], dim=x["dim"]),
    "dots' gradient": lambda ops, x: ops.ctrlab_dot_interaction_gradient(
        bottom=x["bottom"], fields=x["fields"], d_out=x["d"], dim=x["dim"]
    ),
}
FIELDS = "The fields must be .*D = 4; received"
REFUSED = {
    "fields of another rank": (dict(fields=tf.zeros([3])), OPS, FIELDS + "|rank 2"),
    "fields that are no multiple": (dict(fields=tf.zeros([2, 7])), OPS, FIELDS + " \\[2,7\\]"),
    "no field": (dict(fields=tf.zeros([2, 0])), OPS, FIELDS + " \\[2,0\\]"),
    "a bottom of another width": (
        dict(bottom=[tf.zeros([2, 3])]),
        ["dots", "dots' gradient"],
        "bottom.*\\[2,4\\]; received \\[2,3\\]",
    ),
    "a bottom of other rows": (
        dict(bottom=[tf.zeros([1, 4])]),
        ["dots", "dots' gradient"],
        "bottom.*received \\[1,4\\]|must be equal",
    ),
    "two bottoms": (
        dict(bottom=[tf.zeros([2, 4])] * 2),
        ["dots", "dots' gradient"],
        "one bottom vector a row or none; received 2",
    ),
    "a gradient of other rows": (dict(d=tf.zeros([1, 4])), ["machine's gradient"], "d_out must be \\[2,4\\]; received \\[1,4\\]"),
    "a gradient of other width": (dict(d=tf.zeros([2, 6])), ["dots' gradient"], "d_out must be \\[2,7\\]; received \\[2,6\\]"),
    "a dimension of nothing": (dict(dim=0), OPS, "dim"),
}


@pytest.mark.parametrize("case,op", [(case, op) for case, (_, ops, _) in REFUSED.items() for op in ops])
def test_bad_input_is_refused(case, op):
    change, _, message = REFUSED[case]
    inputs = dict(bottom=[tf.zeros([2, 4])], fields=tf.zeros([2, 8]), d=tf.zeros([2, 7]), dim=4) | change
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        OPS[op](_native.library().ops, inputs)
