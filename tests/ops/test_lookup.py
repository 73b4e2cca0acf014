"""The lookup of all columns: stock and fused against the reference, values and gradients; every bad input refused."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops import lookup
from ctrlab.ops import merge as merging
from ctrlab.ops.lookup import Layout


def in_rows(tables, columns, lay):
    """The lookup in rows that a step has fetched: here all of a table's."""
    return lookup.in_rows([tf.convert_to_tensor(table) for table in tables], columns, lay)


IMPLEMENTATIONS = lookup.OP.ways | {"in_rows": in_rows}


@pytest.fixture(params=IMPLEMENTATIONS)
def look_up(request):
    return IMPLEMENTATIONS[request.param]


def bag(*rows):
    return tf.ragged.constant(rows, dtype=tf.int64, row_splits_dtype=tf.int64)


def ids(*values):
    return tf.constant(values, tf.int64)


def table(rows, dim, seed=0):
    return tf.Variable(np.random.default_rng(seed).standard_normal((rows, dim), dtype=np.float32))


def layout(*columns, unknown=True):
    """Of (table, combiner, output) a column; `unknown`: any id may be -1."""
    return Layout(*map(tuple, zip(*columns)), unknown=frozenset(range(len(columns))) if unknown else frozenset())


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


def close(received, expected, magnitude, what):
    """Norm-wise against `magnitude`, the same sums over absolute terms: a few hundred float32 terms, each rounded once."""
    received, expected = np.asarray(received, np.float64), np.asarray(expected, np.float64)
    assert received.shape == expected.shape, what
    assert np.linalg.norm(received - expected) <= 1e-6 * np.linalg.norm(magnitude), what


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


def test_the_reference_gradient_is_that_of_finite_differences(finite_differences):
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((4, 2)), rng.standard_normal((3, 3))]
    history = bag([2, 0, 2], [], [-1, 3])
    columns = [ids(1, -1, 0), bag([2, 0], [1, -1, 1], []), history, history.with_values(ids(1, 2, 0, 0, -1))]
    lay = layout((0, "sum", 0), (1, "mean", 0), (0, "rows", 1), (1, "rows", 1))
    d_out = [rng.standard_normal((3, 5)), rng.standard_normal((5, 5))]

    def loss(*tables):
        return float(sum((out * d).sum() for out, d in zip(lookup.OP.reference(tables, columns, lay), d_out)))

    found = lookup.OP.reference_gradient(tables, columns, lay, d_out)
    for (touched, rows), expected in zip(found, finite_differences(loss, tables)):
        dense = np.zeros_like(expected)
        dense[touched] = rows
        np.testing.assert_allclose(dense, expected, atol=1e-7)


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


OUT_OF_RANGE = {
    "a dense column": ([ids(0, 1), ids(0, 5)], "column 1.*in \\[0, 5\\); received 5 in row 1"),
    "a ragged column": ([ids(0, 1, 1), bag([0], [], [1, -2])], "column 1.*received -2 in row 2"),
    "far out": ([ids(2**62), ids(0)], "column 0.*received 4611686018427387904 in row 0"),
    "rows that disagree": ([ids(0, 1), bag([0])], "same rows"),
}


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


def test_rows_are_matrices_of_their_dimension():
    arguments = {"table_dims": [3], "table_of": [0], "output_of": [0], "combiners": ["sum"], "M": 1}
    for rows in (tf.zeros([2, 4]), tf.zeros([3]), tf.zeros([])):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match="Rows 0 must be"):
            _native.library().ops.ctrlab_rows_lookup(rows=[rows], ids=[ids(0)], splits=[ids()], **arguments)


@pytest.mark.parametrize("case", OUT_OF_RANGE)
@pytest.mark.parametrize("look_up", [lookup.OP.reference, lookup.fused, in_rows])
def test_bad_ids_are_refused_with_row_and_column(look_up, case):
    columns, message = OUT_OF_RANGE[case]
    with pytest.raises((CtrlabError, tf.errors.InvalidArgumentError), match=message):
        look_up([table(5, 2)], columns, layout((0, "sum", 0), (0, "sum", 0)))


@pytest.mark.parametrize("look_up", [lookup.OP.reference, *IMPLEMENTATIONS.values()])
def test_lists_side_by_side_must_be_of_equal_length(look_up):
    columns = [bag([0], [1, 1]), bag([0, 1], [1])]
    with pytest.raises(
        (CtrlabError, tf.errors.InvalidArgumentError), match=r"must be of equal length; columns \d and \d differ in"
    ):
        look_up([table(5, 2)], columns, layout((0, "rows", 0), (0, "rows", 0)))


RAW = dict(
    tables=[(3, 2)],
    ids=[[0, 1]],
    splits=[[0, 1, 2]],
    table_rows=[3],
    table_dims=[2],
    table_of=[0],
    output_of=[0],
    combiners=["sum"],
    M=1,
)
REFUSED = {
    "ids of another rank": (dict(ids=[[[0, 1]]]), "rank 1|vectors"),
    "splits that start late": (dict(splits=[[1, 1, 2]]), "start at 0; received 1"),
    "splits that go down": (dict(splits=[[0, 3, 2]]), "not go down; received 2 after 3 in row 1"),
    "splits that go past the end": (dict(splits=[[0, 1, 9]]), "end at its 2 ids; received 9"),
    "a table of other rows": (dict(tables=[(4, 2)]), "Table 0 must be \\[3,2\\]; received \\[4,2\\]"),
    "a table of another rank": (dict(tables=[(3,)]), "Table 0 must be \\[3,2\\]; received \\[3\\]"),
    "no such table": (dict(table_of=[1]), "must name one of 1 tables and 1 outputs; received 1 and 0"),
    "no such output": (dict(output_of=[-1]), "must name one of 1 tables and 1 outputs; received 0 and -1"),
    "an output of nothing": (dict(M=2), "Output 1 must have a column"),
    "attributes of another number": (
        dict(combiners=["sum", "sum"]),
        "one table, output and combiner a column; received 1, 1 and 2",
    ),
    "no such combiner": (dict(combiners=["max"]), "must be rows, sum or mean; received max"),
    "a table of nothing": (dict(table_rows=[0]), "table 0 has \\[0, 2\\]"),
    "rows and dimensions that disagree": (dict(table_dims=[2, 2]), "received 1 and 2"),
    "pooled beside rows": (
        dict(ids=[[0], [0]], splits=[[], []], table_of=[0, 0], output_of=[0, 0], combiners=["sum", "rows"]),
        "all be pooled, or all keep a row",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_shapes_are_refused(case):
    change, message = REFUSED[case]
    raw = RAW | change
    vectors = {name: [tf.constant(v, tf.int64) for v in raw[name]] for name in ("ids", "splits")}
    tables = [tf.Variable(tf.zeros(shape)).handle for shape in raw["tables"]]
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        _native.library().ops.ctrlab_lookup(**(raw | vectors | {"tables": tables}))


def test_a_gradient_of_another_shape_is_refused():
    raw = {k: v for k, v in RAW.items() if k not in ("tables", "M")}
    raw |= dict(ids=[ids(0, 1)], splits=[ids(0, 1, 2)], T=1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="d_out 0 must be \\[2,2\\]; received \\[1,2\\]"):
        _native.library().ops.ctrlab_lookup_gradient(**raw, d_out=[tf.zeros([1, 2])])


def test_a_variable_of_another_type_is_refused():
    raw = RAW | dict(ids=[ids(0, 1)], splits=[ids()], tables=[tf.Variable(tf.zeros([3, 2], tf.float64)).handle])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be float32.*table 0 is double"):
        _native.library().ops.ctrlab_lookup(**raw)


@pytest.mark.parametrize("look_up", [lookup.OP.reference, *IMPLEMENTATIONS.values()])
def test_what_can_be_seen_before_running_is_refused_in_one_sentence(look_up):
    with pytest.raises(CtrlabError, match="received 2 for 1"):
        look_up([table(3, 1)], [ids(0), ids(0)], layout((0, "sum", 0)))
    with pytest.raises(CtrlabError, match="one of the 1 tables; the layout says \\[1\\]"):
        look_up([table(3, 1)], [ids(0)], layout((1, "sum", 0)))
    with pytest.raises(CtrlabError, match="int64; received int32 in column 0"):
        look_up([table(3, 1)], [tf.constant([0])], layout((0, "sum", 0)))


def test_layouts_that_do_not_fit_together_are_refused():
    with pytest.raises(CtrlabError, match="received 1, 2 and 1"):
        Layout((0,), ("sum", "sum"), (0,))
    with pytest.raises(CtrlabError, match="received 'max' in column 0"):
        Layout((0,), ("max",), (0,))
    with pytest.raises(CtrlabError, match="without a gap; received \\[1\\]"):
        Layout((0,), ("sum",), (1,))
    with pytest.raises(CtrlabError, match="output 0 must all be pooled"):
        Layout((0, 0), ("sum", "rows"), (0, 0))
