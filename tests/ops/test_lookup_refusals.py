"""Lookups of what does not fit together: one sentence says what, from every way of looking up."""

import pytest
import tensorflow as tf
from lookup_ways import IMPLEMENTATIONS, bag, ids, in_rows, layout, table

from ctrlab import _native
from ctrlab.errors import CtrlabError
from ctrlab.ops import lookup
from ctrlab.ops.lookup import Layout

OUT_OF_RANGE = {
    "a dense column": ([ids(0, 1), ids(0, 5)], "column 1.*in \\[0, 5\\); received 5 in row 1"),
    "a ragged column": ([ids(0, 1, 1), bag([0], [], [1, -2])], "column 1.*received -2 in row 2"),
    "far out": ([ids(2**62), ids(0)], "column 0.*received 4611686018427387904 in row 0"),
    "rows that disagree": ([ids(0, 1), bag([0])], "same rows"),
}


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
    with pytest.raises((CtrlabError, tf.errors.InvalidArgumentError), match=r"equal length; columns \d and \d"):
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
    "fewer rows than none": (dict(table_rows=[-1]), "table 0 has \\[-1, 2\\]"),
    "a dimension of nothing": (dict(table_dims=[0]), "table 0 has \\[3, 0\\]"),
    "an id in a table of nothing": (dict(tables=[(0, 2)], table_rows=[0]), "in \\[0, 0\\); received 0"),
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
