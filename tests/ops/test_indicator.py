"""The indicator column: stock, scatter_nd and fused against the reference, values and gradients; every bad input refused."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from norm_wise import close

from ctrlab.errors import CtrlabError
from ctrlab.ops import indicator

IMPLEMENTATIONS = indicator.OP.ways


@pytest.fixture(params=IMPLEMENTATIONS)
def product(request):
    return IMPLEMENTATIONS[request.param]


def bag(*rows):
    return tf.ragged.constant(rows, dtype=tf.int64, row_splits_dtype=tf.int64)


def ids(*values):
    return tf.constant(values, tf.int64)


def random_kernel(sizes, outputs, seed=0):
    return tf.constant(np.random.default_rng(seed).standard_normal((sum(sizes), outputs), dtype=np.float32))


def gradients(product, columns, sizes, kernel, weights, d_out):
    """out, d_kernel, d_weights (flat, per column)."""
    flat = [] if weights is None else [w.values if isinstance(w, tf.RaggedTensor) else w for w in weights]
    with tf.GradientTape() as tape:
        tape.watch([kernel, *flat])
        out = product(columns, sizes, kernel, weights)
    d_kernel, *d_weights = tape.gradient(out, [kernel, *flat], output_gradients=d_out, unconnected_gradients="zero")
    return out, d_kernel, d_weights


def check(product, columns, sizes, kernel, weights=None, seed=1):
    """Values and gradients of `product` against the reference."""
    expected = indicator.OP.reference(columns, sizes, kernel, weights)
    d_out = tf.constant(np.random.default_rng(seed).standard_normal(expected.shape, dtype=np.float32))
    out, d_kernel, d_weights = gradients(product, columns, sizes, kernel, weights, d_out)
    absolute = tf.abs(kernel), weights and [tf.abs(w) for w in weights]
    close(out, expected, indicator.OP.reference(columns, sizes, *absolute), "out")
    expected_kernel, expected_weights = indicator.OP.reference_gradient(columns, sizes, kernel, weights, d_out=d_out)
    most_kernel, most_weights = indicator.OP.reference_gradient(columns, sizes, *absolute, d_out=tf.abs(d_out))
    close(tf.convert_to_tensor(d_kernel), expected_kernel, most_kernel, "d_kernel")
    for received, wanted, most in zip(d_weights, expected_weights or [], most_weights or []):
        close(received, wanted, most, "d_weights")


def test_the_definition_term_by_term():
    kernel = np.array([[1.0, 10], [2, 20], [3, 30], [4, 40], [5, 50]])
    columns = [ids(1, -1), bag([2, 0, 2], [])]
    #   row 0: kernel[1] + kernel[2 + 2] + kernel[2 + 0] + kernel[2 + 2]; row 1: nothing
    np.testing.assert_array_equal(indicator.OP.reference(columns, [2, 3], kernel), [[2 + 5 + 3 + 5, 20 + 50 + 30 + 50], [0, 0]])
    weights = [ids(0, 0), bag([1, 2, 3], [])]
    np.testing.assert_array_equal(indicator.OP.reference(columns, [2, 3], kernel, weights), [[5 + 2 * 3 + 3 * 5, 260], [0, 0]])


ADVERSARIAL = {
    "duplicates": ([bag([3, 3, 3], [3])], [4]),
    "both ends": ([ids(0, 6), bag([6, 0], [0, 6])], [7, 7]),
    "empty rows": ([bag([], [1], [], [])], [3]),
    "no id at all": ([bag([], [], [])], [3]),
    "all unknown": ([ids(-1, -1), bag([-1], [-1, -1])], [3, 2]),
    "some unknown": ([ids(-1, 2), bag([1, -1, 1], [-1, 0])], [3, 2]),
    "no rows": ([tf.zeros([0], tf.int64), tf.RaggedTensor.from_row_lengths(tf.zeros([0], tf.int64), [])], [3, 2]),
    "one row, one id, one place": ([ids(0)], [1]),
    "32-bit splits": ([bag([1], [0, 1]).with_row_splits_dtype(tf.int32)], [2]),
}


@pytest.mark.parametrize("case", ADVERSARIAL)
@pytest.mark.parametrize("outputs", [1, 17, 64])
def test_adversarial_batches(product, case, outputs):
    columns, sizes = ADVERSARIAL[case]
    check(product, columns, sizes, random_kernel(sizes, outputs))


@st.composite
def batches(draw):
    """Columns, sizes, kernel, weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, outputs = draw(st.integers(0, 9)), draw(st.sampled_from([1, 2, 16, 33, 64, 81]))
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    columns, weights = [], []
    for size in sizes:
        column = tf.constant(rng.integers(-1, size, rows))
        if draw(st.booleans()):
            lengths = rng.integers(0, 5, rows)
            column = tf.RaggedTensor.from_row_lengths(tf.constant(rng.integers(-1, size, lengths.sum())), lengths)
        columns.append(column)
        weights.append(tf.ragged.map_flat_values(lambda x: tf.constant(rng.standard_normal(x.shape), tf.float32), column))
    weighted = draw(st.booleans())
    return columns, sizes, random_kernel(sizes, outputs), weights if weighted else None


@settings(max_examples=60, deadline=None)
@given(batches())
def test_fused_is_the_reference_on_any_batch(batch):
    check(indicator.fused, *batch)


@settings(max_examples=10, deadline=None)
@given(batches())
def test_stock_and_scatter_are_the_reference_on_any_batch(batch):
    check(indicator.baseline, *batch)
    check(indicator.scatter_nd, *batch)


@pytest.mark.parametrize("outputs", [1, 64])
def test_fused_is_stock_on_large_tables(outputs):
    """Tables of many bins, so that ids are sorted; of several blocks of rows; one of one bin beside them."""
    rng = np.random.default_rng(0)
    rows, sizes = 700, [70_000 // outputs, 1_000 // outputs]
    columns = [
        tf.RaggedTensor.from_uniform_row_length(tf.constant(rng.integers(-1, sizes[0], rows * 3)), 3),
        tf.constant(rng.integers(-1, sizes[1], rows)),
    ]
    kernel = random_kernel(sizes, outputs)
    d_out = tf.constant(rng.standard_normal((rows, outputs), dtype=np.float32))
    for received, expected in zip(
        gradients(indicator.fused, columns, sizes, kernel, None, d_out)[:2],
        gradients(indicator.best_stock, columns, sizes, kernel, None, d_out)[:2],  # the baseline's one-hots take a gigabyte
    ):
        close(received, expected, expected, "fused against stock")


def test_fused_gives_the_same_bits_each_time():
    rng = np.random.default_rng(0)
    columns, sizes = [tf.RaggedTensor.from_uniform_row_length(tf.constant(rng.integers(0, 50, 512 * 30)), 30)], [5_000]
    kernel, d_out = random_kernel(sizes, 64), random_kernel([512], 64)
    first, *others = [gradients(indicator.fused, columns, sizes, kernel, None, d_out)[:2] for _ in range(5)]
    for other in others:
        for a, b in zip(first, other):
            np.testing.assert_array_equal(a, b)


def test_stock_is_the_librarys_indicator_column():
    size, dense, ragged = 9, ids(3, -1, 8, 0), bag([1, 1], [], [8, 0, 3], [4])
    kernel = random_kernel([size, size], 5)

    def library(key, values):
        column = tf.feature_column.categorical_column_with_identity(key, size)
        cache = tf.compat.v2.__internal__.feature_column.FeatureTransformationCache({key: values})
        return tf.feature_column.indicator_column(column).transform_feature(cache, None)

    multi_hot = tf.concat([library("one", dense), tf.reshape(library("bag", ragged.to_sparse()), [4, size])], axis=1)
    received = indicator.baseline([dense, ragged], [size, size], kernel)
    np.testing.assert_array_equal(received, tf.matmul(multi_hot, kernel))


def test_fused_works_in_a_traced_function_of_unknown_batch_size():
    columns, sizes, kernel = [ids(1, 0, 2), bag([0], [1, 1], [])], [3, 2], random_kernel([3, 2], 4)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64), tf.RaggedTensorSpec([None, None], tf.int64)])
    def traced(one, many):
        out = indicator.fused([one, many], sizes, kernel)
        assert out.shape.as_list() == [None, 4]
        return out

    np.testing.assert_allclose(traced(*columns), indicator.OP.reference(columns, sizes, kernel), rtol=1e-5, atol=1e-6)
    graph = tf.function(lambda x: indicator.fused([x], [3], kernel[:3])).get_concrete_function(tf.TensorSpec([7], tf.int64))
    assert graph.output_shapes.as_list() == [7, 4]


OUT_OF_RANGE = {
    "a dense column": ([ids(0, 1), ids(0, 5)], 5, "column 1.*in \\[0, 5\\); received 5 in row 1"),
    "a ragged column": ([ids(0, 1, 1), bag([0], [], [1, -2])], 5, "column 1.*received -2 in row 2"),
    "far out": ([ids(2**62), ids(0)], 5, "column 0.*received 4611686018427387904 in row 0"),
    "the other end": ([ids(-(2**63)), ids(0)], 5, "column 0.*received -9223372036854775808 in row 0"),
    "rows that disagree": ([ids(0, 1), bag([0])], 5, "same rows"),
}


@pytest.mark.parametrize("case", OUT_OF_RANGE)
@pytest.mark.parametrize("product", [indicator.OP.reference, indicator.fused])
def test_bad_ids_are_refused_with_row_and_column(product, case):
    columns, size, message = OUT_OF_RANGE[case]
    with pytest.raises((CtrlabError, tf.errors.InvalidArgumentError), match=message):
        product(columns, [size] * 2, random_kernel([size] * 2, 2))


RAW = dict(ids=[[0, 1]], splits=[[0, 1, 2]], weights=[], kernel=np.zeros((3, 2)), sizes=[3])
REFUSED = {
    "Ids, splits: vectors": (dict(ids=[[[0, 1]]]), "rank 1|vectors"),
    "splits that start late": (dict(splits=[[1, 1, 2]]), "start at 0; received 1"),
    "splits that go down": (dict(splits=[[0, 3, 2]]), "not go down; received 2 after 3 in row 1"),
    "splits that end early": (dict(splits=[[0, 1, 1]]), "end at its 2 ids; received 1"),
    "splits that go past the end": (dict(splits=[[0, 1, 9]]), "end at its 2 ids; received 9"),
    "a kernel of other rows": (dict(kernel=np.zeros((4, 2))), "\\[3, outputs\\].*received \\[4,2\\]"),
    "a kernel of other rank": (dict(kernel=np.zeros(3)), "rank 2|must be \\[3, outputs\\]"),
    "sizes of another number": (dict(sizes=[1, 2]), "one size per column; received 2 for 1"),
    "a size of nothing": (dict(sizes=[0], kernel=np.zeros((0, 2))), "size of column 0.*received 0"),
    "weights of another shape": (dict(weights=[[1.0]]), "weights of column 0.*\\[2\\]; received \\[1\\]"),
    "weights of some columns": (dict(ids=[[0], [0]], splits=[[], []], weights=[[1.0]], sizes=[1, 2]), "weights or none"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_shapes_are_refused(case):
    from ctrlab import _native

    change, message = REFUSED[case]
    raw = RAW | change
    vectors = {name: [tf.constant(v, tf.int64) for v in raw[name]] for name in ("ids", "splits")}
    weights = [tf.constant(w, tf.float32) for w in raw["weights"]]
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        _native.library().ops.ctrlab_indicator(
            **vectors, weights=weights, kernel=tf.constant(raw["kernel"], tf.float32), sizes=raw["sizes"]
        )


def test_a_gradient_of_another_shape_is_refused():
    from ctrlab import _native

    with pytest.raises(tf.errors.InvalidArgumentError, match="d_out must be \\[2,4\\]; received \\[1,4\\]"):
        _native.library().ops.ctrlab_indicator_gradient(
            ids=[ids(0, 1)], splits=[ids()], weights=[], kernel=tf.zeros([3, 4]), d_out=tf.zeros([1, 4]), sizes=[3]
        )


@pytest.mark.parametrize("product", [indicator.OP.reference, *IMPLEMENTATIONS.values()])
def test_what_can_be_seen_before_running_is_refused_in_one_sentence(product):
    kernel = random_kernel([3], 1)
    with pytest.raises(CtrlabError, match=r"one size per column.*received 2 for 1"):
        product([ids(0)], [1, 2], kernel)
    with pytest.raises(CtrlabError, match="received 2 for 1"):
        product([ids(0)], [3], kernel, [None, None])
    with pytest.raises(CtrlabError, match="int64; received int32 in column 0"):
        product([tf.constant([0])], [3], kernel)
