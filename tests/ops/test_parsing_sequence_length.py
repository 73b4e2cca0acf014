"""The length of a sparse row: stock and fused against the reference; every bad input refused."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops.parsing import sequence_length

IMPLEMENTATIONS = sequence_length.OP.ways


@pytest.fixture(params=IMPLEMENTATIONS)
def lengths(request):
    return IMPLEMENTATIONS[request.param]


def sparse(indices, shape):
    indices = np.reshape(np.array(indices, np.int64), (-1, 2))
    return tf.SparseTensor(indices, tf.constant(["x"] * len(indices)), shape)


ADVERSARIAL = {
    "a column left out": (sparse([[0, 0], [0, 2]], [1, 5]), [3]),
    "not the first column": (sparse([[0, 1]], [2, 5]), [2, 0]),
    "no value at all": (sparse([], [3, 5]), [0, 0, 0]),
    "no rows": (sparse([], [0, 5]), []),
    "no columns": (sparse([], [2, 0]), [0, 0]),
    "the last place": (sparse([[2, 4]], [3, 5]), [0, 0, 5]),
    "any order": (sparse([[1, 3], [0, 0], [1, 1]], [2, 5]), [1, 4]),
    "the same place twice": (sparse([[0, 1], [0, 1]], [1, 5]), [2]),
}


@pytest.mark.parametrize("case", ADVERSARIAL)
def test_adversarial_matrices(lengths, case):
    matrix, expected = ADVERSARIAL[case]
    np.testing.assert_array_equal(sequence_length.OP.reference(matrix), expected)
    received = lengths(matrix)
    assert received.dtype == tf.int64
    np.testing.assert_array_equal(received, expected)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_any_matrix(rows, columns, data):
    place = st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1))
    matrix = sparse(data.draw(st.lists(place, max_size=20)), [rows, columns])
    expected = sequence_length.OP.reference(matrix)
    for lengths in IMPLEMENTATIONS.values():
        np.testing.assert_array_equal(lengths(matrix), expected)


def test_fused_works_in_a_traced_function_of_unknown_batch_size():
    @tf.function(input_signature=[tf.SparseTensorSpec([None, None], tf.string)])
    def traced(matrix):
        out = sequence_length.fused(matrix)
        assert out.shape.as_list() == [None]
        return out

    np.testing.assert_array_equal(traced(sparse([[0, 1]], [2, 5])), [2, 0])


@pytest.mark.parametrize("at", [[2, 0], [0, 5], [-1, 0], [0, -1], [2**62, 0]])
@pytest.mark.parametrize("lengths", [sequence_length.OP.reference, sequence_length.fused])
def test_indices_outside_are_refused(lengths, at):
    with pytest.raises(
        (CtrlabError, tf.errors.InvalidArgumentError), match=rf"lie in \[2, 5\]; received \[{at[0]}, {at[1]}\] at 1"
    ):
        lengths(sparse([[0, 0], at], [2, 5]))


REFUSED = {
    "three columns of indices": ([[0, 0, 0]], [2, 5], r"indices \[N, 2\].*received \[1,3\]"),
    "a shape of three": ([[0, 0]], [2, 5, 5], "shape of 2|rank 2"),
    "a negative size": ([[0, 0]], [-2, 5], "no negative size|>= 0|-2"),
    "a vector of indices": ([0, 0], [2, 5], "rank 2|indices"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_shapes_are_refused(case):
    indices, shape, message = REFUSED[case]
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        _native.library().ops.ctrlab_sequence_length(
            indices=tf.constant(indices, tf.int64), dense_shape=tf.constant(shape, tf.int64)
        )
