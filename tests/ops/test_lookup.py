"""The lookup of all columns: stock and fused against the reference, values and gradients."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from lookup_ways import IMPLEMENTATIONS, bag, ids, layout, table
from norm_wise import close

from ctrlab.ops import lookup
from ctrlab.ops import merge as merging


@pytest.fixture(params=IMPLEMENTATIONS)
def look_up(request):
    return IMPLEMENTATIONS[request.param]


def gradients(look_up, tables, columns, lay, seed=1):
    """Outputs, and (ids, rows) of each table's merged gradient."""
    rng = np.random.default_rng(seed)
    with tf.GradientTape() as tape:
        outputs = look_up(tables, columns, lay)
    d_out = [tf.constant(rng.standard_normal(out.shape), tf.float32) for out in outputs]
    found = tape.gradient(outputs, tables, output_gradients=d_out)
    merged = [(np.zeros(0, int), np.zeros((0, t.shape[1]))) if g is None else merge(g) for g, t in zip(found, tables)]
    return outputs, merged, d_out


def merge(gradient):
    if isinstance(gradient, tf.Tensor):  # dense: random gradients leave no row that was read at 0
        read = np.flatnonzero(np.any(gradient.numpy() != 0, axis=1))
        return read, gradient.numpy()[read]
    unique, place = np.unique(gradient.indices, return_inverse=True)
    sums = np.zeros((len(unique), *gradient.values.shape[1:]))
    np.add.at(sums, place, np.asarray(gradient.values, np.float64))
    return unique, sums


def check(look_up, tables, columns, lay):
    """Values and gradients of `look_up` against the reference."""
    outputs, merged, d_out = gradients(look_up, tables, columns, lay)
    absolute = [np.abs(t.numpy()) for t in tables]
    expected, most = lookup.OP.reference(tables, columns, lay), lookup.OP.reference(absolute, columns, lay)
    assert len(outputs) == len(expected) == lay.outputs
    for received, wanted, magnitude in zip(outputs, expected, most):
        close(received, wanted, magnitude, "out")
    wanted = lookup.OP.reference_gradient(tables, columns, lay, d_out)
    most = lookup.OP.reference_gradient(tables, columns, lay, [np.abs(d) for d in d_out])
    for (touched, rows), (expected_ids, expected_rows), (_, magnitude) in zip(merged, wanted, most):
        np.testing.assert_array_equal(touched, expected_ids)
        close(rows, expected_rows, magnitude, "gradient")


def test_the_definition_term_by_term():
    one, two = np.array([[1.0, 10], [2, 20], [3, 30]]), np.array([[100.0], [200]])
    columns = [bag([0, 2, 2], []), ids(-1, 1), bag([1, -1, 2], [0])]
    lay = layout((0, "mean", 0), (1, "sum", 0), (0, "rows", 1))
    pooled, rows = lookup.OP.reference([one, two], columns, lay)
    np.testing.assert_allclose(pooled, [[7 / 3, 70 / 3, 0], [0, 0, 200]])
    np.testing.assert_array_equal(rows, [[2, 20], [0, 0], [3, 30], [1, 10]])


def test_a_mean_is_over_the_known_ids():
    (out,) = lookup.OP.reference([np.array([[2.0], [4.0]])], [bag([0, -1, 1], [-1])], layout((0, "mean", 0)))
    np.testing.assert_array_equal(out, [[3], [0]])


ADVERSARIAL = {
    "duplicates": ([bag([3, 3, 3], [3])], [4], layout((0, "mean", 0))),
    "two columns of one table": ([ids(3, 0), bag([3, 0], [])], [4], layout((0, "sum", 0), (0, "sum", 0))),
    "both ends": ([ids(0, 6), bag([6, 0], [0, 6])], [7, 7], layout((0, "sum", 0), (1, "mean", 0))),
    "empty rows": ([bag([], [1], [], [])], [3], layout((0, "mean", 0))),
    "no id at all": ([bag([], [], [])], [3], layout((0, "sum", 0))),
    "no id at all, a row each": ([bag([], [], [])], [3], layout((0, "rows", 0))),
    "all unknown": ([ids(-1, -1), bag([-1], [-1, -1])], [3, 2], layout((0, "rows", 0), (1, "mean", 1))),
    "some unknown": ([ids(-1, 2), bag([1, -1, 1], [-1, 0])], [3, 2], layout((0, "rows", 0), (1, "rows", 1))),
    "no rows": ([ids(), bag()], [3, 2], layout((0, "mean", 0), (1, "mean", 1))),
    "one row, one id, one place": ([ids(0)], [1], layout((0, "mean", 0))),
    "32-bit splits": ([bag([1], [0, 1]).with_row_splits_dtype(tf.int32)], [2], layout((0, "sum", 0))),
    "a table that no column reads": ([ids(1)], [2, 5], layout((0, "sum", 0))),
    "outputs out of order": ([ids(1), ids(0)], [2, 5], layout((0, "sum", 1), (1, "sum", 0))),
}


@pytest.mark.parametrize("case", ADVERSARIAL)
@pytest.mark.parametrize("dim", [1, 16, 18, 67])
def test_adversarial_batches(look_up, case, dim):
    columns, sizes, lay = ADVERSARIAL[case]
    check(look_up, [table(size, dim, t) for t, size in enumerate(sizes)], columns, lay)


@st.composite
def batches(draw):
    """Tables, columns and layout: pooled columns in the outputs before, histories side by side in the last."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.integers(0, 9))
    tables = [
        table(size, draw(st.sampled_from([1, 4, 16, 18, 33])))
        for size in draw(st.lists(st.integers(1, 90), min_size=1, max_size=3))
    ]
    columns, entries = [], []
    for _ in range(draw(st.integers(1, 4))):
        t, ragged = draw(st.integers(0, len(tables) - 1)), draw(st.booleans())
        lengths = rng.integers(0, 5, rows) if ragged else np.ones(rows, int)
        flat = tf.constant(rng.integers(-1, tables[t].shape[0], lengths.sum()))
        columns.append(tf.RaggedTensor.from_row_lengths(flat, lengths) if ragged else flat)
        entries.append(
            (t, draw(st.sampled_from(["sum", "mean"])), draw(st.sampled_from([0, 0, len(set(e[2] for e in entries))])))
        )
    lengths, last = rng.integers(0, 5, rows), max(e[2] for e in entries) + 1
    for t in draw(st.lists(st.integers(0, len(tables) - 1), max_size=2)):
        flat = tf.constant(rng.integers(-1, tables[t].shape[0], lengths.sum()))
        columns.append(tf.RaggedTensor.from_row_lengths(flat, lengths))
        entries.append((t, "rows", last))
    return tables, columns, layout(*entries)


@settings(max_examples=60, deadline=None)
@given(batches())
def test_fused_is_the_reference_on_any_batch(batch):
    check(lookup.fused, *batch)


@settings(max_examples=10, deadline=None)
@given(batches())
def test_stock_is_the_reference_on_any_batch(batch):
    check(lookup.baseline, *batch)


def large(rng):
    """Tables of several bins, in columns of all kinds; ids that all rows share."""
    tables = [table(70_000, 18), table(500, 16), table(5, 16)]
    lengths = rng.integers(0, 90, 700)
    flat = rng.integers(0, 70_000, lengths.sum())
    flat[::7] = 69_999
    history = tf.RaggedTensor.from_row_lengths(tf.constant(flat), lengths)
    beside = history.with_values(tf.constant(rng.integers(0, 500, lengths.sum())))
    columns = [tf.constant(rng.integers(0, 70_000, 700)), history, beside, beside, tf.constant(rng.integers(0, 5, 700))]
    return tables, columns, layout((0, "mean", 0), (0, "rows", 1), (1, "rows", 1), (1, "mean", 0), (2, "sum", 0), unknown=False)


def test_fused_is_stock_on_large_tables():
    tables, columns, lay = large(np.random.default_rng(0))
    fused, stock = (gradients(f, tables, columns, lay) for f in (lookup.fused, lookup.baseline))
    for received, expected in zip(fused[0], stock[0]):
        close(received, expected, expected, "out")
    for (touched, rows), (expected_ids, expected) in zip(fused[1], stock[1]):
        np.testing.assert_array_equal(touched, expected_ids)
        close(rows, expected, expected, "gradient")


def test_fused_gives_the_same_bits_each_time():
    tables, columns, lay = large(np.random.default_rng(0))
    first, *others = [gradients(lookup.fused, tables, columns, lay) for _ in range(3)]
    for outputs, merged, _ in others:
        for a, b in zip(tf.nest.flatten([first[0], first[1]]), tf.nest.flatten([outputs, merged])):
            np.testing.assert_array_equal(a, b)


def test_the_fused_gradient_comes_merged_and_in_order():
    with tf.GradientTape() as tape:
        tables = [table(9, 2)]
        (out,) = lookup.fused(tables, [ids(7, 3, 3, 3)], layout((0, "sum", 0)))
    gradient = tape.gradient(out, tables, output_gradients=[tf.ones((4, 2))])[0]
    np.testing.assert_array_equal(gradient.indices, [3, 7])
    np.testing.assert_array_equal(gradient.values, [[3, 3], [1, 1]])
    np.testing.assert_array_equal(gradient.dense_shape, [9, 2])


def test_merging_any_sparse_gradient():
    rows = np.arange(8.0, dtype=np.float32).reshape(4, 1, 2)
    shape = tf.TensorShape([9, 1, 2])
    merged = merging.fused(tf.IndexedSlices(tf.constant(rows), ids(7, 3, 7, 7)), shape)
    np.testing.assert_array_equal(merged.indices, [3, 7])
    np.testing.assert_array_equal(merged.values, [[[2, 3]], [[10, 13]]])
    np.testing.assert_array_equal(merged.dense_shape, shape)
    again = merging.fused(merged, shape)
    np.testing.assert_array_equal(again.values, merged.values)


def test_a_gradient_from_fused_is_not_merged_again_in_a_graph():
    tables = [table(9, 2)]

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            (out,) = lookup.fused(tables, [x], layout((0, "sum", 0)))
        return merging.fused(tape.gradient(out, tables)[0], tables[0].shape)

    graph = step.get_concrete_function(tf.TensorSpec([None], tf.int64)).graph
    assert [op.type for op in graph.get_operations()].count("Ctrlab>LookupGradient") == 1


def test_fused_works_in_a_traced_function_of_unknown_batch_size():
    tables, lay = [table(3, 4), table(5, 2)], layout((0, "mean", 0), (1, "rows", 1))
    columns = [ids(1, 0, 2), bag([0], [1, 1], [])]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64), tf.RaggedTensorSpec([None, None], tf.int64)])
    def traced(one, many):
        outputs = lookup.fused(tables, [one, many], lay)
        assert [out.shape.as_list() for out in outputs] == [[None, 4], [None, 2]]
        return outputs

    for received, expected in zip(traced(*columns), lookup.OP.reference(tables, columns, lay)):
        np.testing.assert_allclose(received, expected, rtol=1e-6)
    graph = tf.function(lambda x: lookup.fused(tables[:1], [x], layout((0, "sum", 0)))).get_concrete_function(
        tf.TensorSpec([7], tf.int64)
    )
    assert graph.output_shapes[0].as_list() == [7, 4]


def test_a_lookup_sees_the_assignments_before_it_and_not_those_after():
    tables = [table(3, 2)]

    @tf.function
    def both():
        before = lookup.fused(tables, [ids(1)], layout((0, "sum", 0)))[0]
        tables[0].assign(tf.zeros((3, 2)))
        return before, lookup.fused(tables, [ids(1)], layout((0, "sum", 0)))[0]

    was = tables[0].numpy()[1]
    before, after = both()
    np.testing.assert_array_equal(before[0], was)
    np.testing.assert_array_equal(after[0], [0, 0])


def test_rows_that_no_id_names_may_be_none():
    """A worker without examples fetches none."""
    rows = tf.zeros([0, 3])
    with tf.GradientTape() as tape:
        tape.watch(rows)
        pooled, each = lookup.in_rows([rows], [bag([], [-1]), ids(-1, -1)], layout((0, "mean", 0), (0, "rows", 1)))
    np.testing.assert_array_equal(pooled, np.zeros((2, 3)))
    np.testing.assert_array_equal(each, np.zeros((2, 3)))
    assert tape.gradient([pooled, each], rows).shape == (0, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"in \[0, 0\); received 0"):
        lookup.in_rows([rows], [ids(0)], layout((0, "sum", 0)))
