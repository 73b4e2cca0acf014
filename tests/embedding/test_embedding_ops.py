"""The ops under the embedding variable refuse every bad input with a sentence, and never the process with it."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab import _native
from ctrlab.embedding import BloomFilter, CounterFilter, EmbeddingVariable, Options
from ctrlab.errors import CtrlabError
from ctrlab.ops.refusals import one_sentence

MOST = 2**63 - 1


def ints(*values):
    return tf.constant(values, tf.int64, shape=(len(values),))


@pytest.fixture(scope="module")
def ops():
    return _native.library().ops


@pytest.fixture
def variable():
    variable = EmbeddingVariable("items", 2)
    variable.set_slots({"accumulator": 0.1})
    return variable


def make(ops, numbers=(0.0, 0.1, 0.0), **other):
    facts = dict(table_name="t", dim=2, initializer=2, seed=1, admission=0, threshold=1, expected_keys=0, keep=False)
    facts |= dict(storage_path="", memory_rows=0, cache="lru", compaction="sync")
    return ops.ctrlab_embedding_table(numbers=tf.constant(numbers, tf.float64), **facts | other)


@pytest.mark.parametrize(
    "wrong",
    [
        {"dim": 0},
        {"dim": -1},
        {"dim": MOST},
        {"initializer": 9},
        {"initializer": -1},
        {"admission": 7},
        {"admission": 3, "threshold": 2, "expected_keys": 9, "numbers": (0.0, 0.1, 0.01)},
        {"admission": -1},
        {"storage_path": "/nowhere", "memory_rows": 0},
        {"storage_path": "/nowhere", "memory_rows": 2**31},
        {"admission": 1, "threshold": 0},
        {"admission": 2, "threshold": 2, "expected_keys": 0},
        {"admission": 2, "threshold": 2, "expected_keys": MOST, "numbers": (0.0, 0.1, 0.01)},
        {"admission": 2, "threshold": 2, "expected_keys": 9, "numbers": (0.0, 0.1, 2.0)},
        {"numbers": (np.nan, 0.1, 0.0)},
        {"numbers": (0.0,)},
    ],
)
def test_tables_that_can_not_be(ops, wrong):
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError)):
        make(ops, **wrong)


TWO = {"table_of": [0, 0], "output_of": [0, 0], "combiners": ["sum", "sum"]}


def lookup(ops, variable, ids=None, **other):
    given = dict(
        tables=[variable.resource_handle],
        proxies=[variable.proxy.handle],
        ids=[ints(1, 2)] if ids is None else ids,
        splits=[ints()],
        times=[],
        table_dims=[2],
        table_of=[0],
        output_of=[0],
        combiners=["sum"],
        M=1,
        training=True,
    )
    return ops.ctrlab_embedding_lookup(**given | other)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"table_dims": [3]}, "rows of 2 numbers; table 0 of the op should have 3"),
        ({"table_dims": []}, "Each of 1 tables"),
        ({"table_dims": [2, 2]}, "Each of 1 tables"),
        ({"table_dims": [-1]}, "a dimension of 1 to as much"),
        ({"table_of": [1]}, "must name one of 1 tables"),
        ({"table_of": []}, "one table, output and combiner"),
        ({"output_of": [-1]}, "must name one of"),
        ({"combiners": ["max"]}, "rows, sum or mean"),
        ({"M": 2}, "Output 1 must have a column"),
        ({"ids": [tf.zeros([1, 2], tf.int64)]}, "must be vectors"),
        ({"splits": [ints(0, 3)]}, "must end at its 2 ids"),
        ({"splits": [ints(0, 2, 1)]}, "must not go down"),
        ({"ids": [ints(1), ints(1, 2)], "splits": [ints()] * 2, **TWO}, "same rows"),
    ],
)
def test_lookups_that_do_not_fit(ops, variable, wrong, sentence):
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        lookup(ops, variable, **wrong)


TIMES = [
    ([ints(1, 0)], r"^The times of column 0 must be at least 1 and less than 2\^31 together; received 0 at 1\.$"),
    ([ints(-1, 1)], r"received -1 at 0\.$"),
    ([ints(1 << 30, 1 << 30)], r"received 1073741824 at 1\.$"),
    ([ints(1, MOST)], rf"received {MOST} at 1\.$"),
    ([ints(1)], r"^The times of column 0 must be \[2\]; received \[1\]\.$"),
    ([tf.ones([2, 1], tf.int64)], r"^The times of column 0 must be \[2\]; received \[2,1\]\.$"),
    ([ints(1, 1)] * 2, r"^All columns have times, or none; received those of 2 for 1 columns\.$"),
]


@pytest.mark.parametrize(("times", "sentence"), TIMES)
def test_times_that_do_not_fit(ops, variable, times, sentence):
    with pytest.raises(CtrlabError, match=sentence), one_sentence():
        lookup(ops, variable, times=times, combiners=["rows"])
    with pytest.raises(CtrlabError, match=sentence), one_sentence():
        gradient(ops, tf.zeros([2, 2]), times=times)


@pytest.mark.parametrize("combiner", ["sum", "mean"])
def test_a_pooled_column_has_no_times(ops, variable, combiner):
    sentence = r"^Only columns under the combiner rows have times; column 0 is pooled\.$"
    with pytest.raises(CtrlabError, match=sentence), one_sentence():
        lookup(ops, variable, times=[ints(1, 1)], combiners=[combiner])
    with pytest.raises(CtrlabError, match=sentence), one_sentence():
        gradient(ops, tf.zeros([2, 2]), times=[ints(1, 1)], combiners=[combiner])


def test_sums_of_the_greatest_times_do_not_overflow(ops):
    most = 2**31 - 1
    three = dict(table_of=[0] * 3, output_of=[0, 1, 2], combiners=["rows"] * 3, ids=[ints(7)] * 3, splits=[ints()] * 3)
    found = gradient(ops, *[tf.ones([1, 2])] * 3, times=[ints(most)] * 3, **three)
    assert (found.counts[0].numpy().tolist(), found.merged_rows[0].numpy().tolist()) == ([3 * most], [[3.0, 3.0]])


def test_a_graph_from_before_there_were_times(ops, variable):
    """As in a SavedModel of an older version: the attribute is missing there."""

    with tf.Graph().as_default() as graph:
        handle = tf.compat.v1.placeholder(tf.resource, [])
        found = lookup(ops, variable, tables=[handle], proxies=[], combiners=["rows"])[0]
    old = graph.as_graph_def()
    (node,) = [node for node in old.node if node.op == "Ctrlab>EmbeddingLookup"]
    del node.attr["K"]
    loaded = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(old, name=""), [])
    read = loaded.prune(handle.name, found.name)
    np.testing.assert_array_equal(read(variable.resource_handle), lookup(ops, variable, combiners=["rows"])[0])


def test_a_handle_of_something_else(ops, variable):
    with pytest.raises(tf.errors.OpError):
        lookup(ops, variable, tables=[tf.Variable([1.0]).handle])
    with pytest.raises(tf.errors.OpError):
        ops.ctrlab_embedding_stats(handle=variable.proxy.handle)


def gradient(ops, *d_out, **other):
    given = dict(ids=[ints(1, 2)], splits=[ints()], times=[], T=1, table_dims=[2], table_of=[0], output_of=[0])
    return ops.ctrlab_embedding_lookup_gradient(d_out=list(d_out), **given | {"combiners": ["rows"]} | other)


def test_gradients_that_do_not_fit(ops):
    for d_out in (tf.zeros([2, 3]), tf.zeros([3, 2]), tf.zeros([4])):
        with pytest.raises(tf.errors.InvalidArgumentError, match="d_out 0 must be"):
            gradient(ops, d_out)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Each of 1 tables"):
        gradient(ops, tf.zeros([2, 2]), table_dims=[])


@pytest.mark.parametrize(
    ("keys", "counts", "rows"),
    [
        (ints(1), ints(0), tf.zeros([1, 2])),
        (ints(1), ints(-5), tf.zeros([1, 2])),
        (ints(1, 2), ints(1 << 30, 1 << 30), tf.zeros([2, 2])),
        (ints(1), ints(MOST), tf.zeros([1, 2])),
        (ints(1), ints(1, 1), tf.zeros([1, 2])),
        (ints(1), ints(1), tf.zeros([2])),
        (ints(1), ints(1), tf.zeros([2, 2])),
    ],
)
def test_counts_that_can_not_be_spread(ops, keys, counts, rows):
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.ctrlab_embedding_spread(merged_keys=keys, counts=counts, merged_rows=rows)


def update(ops, variable, **other):
    given = dict(
        tables=[variable.resource_handle],
        keys=[ints(1, 2)],
        counts=[ints(1, 1)],
        gradients=[tf.ones([2, 2])],
        learning_rate=0.1,
        step=tf.constant(1, tf.int64),
        numbers=tf.zeros([6], tf.float64),
        kind="adagrad",
        slot_names=["accumulator"],
    )
    return ops.ctrlab_embedding_update(**given | other)


def norms(ops, variable, **other):
    given = dict(tables=[variable.resource_handle], keys=[ints(1, 2)], counts=[ints(1, 1)], gradients=[tf.ones([2, 2])])
    given |= dict(step=tf.constant(1, tf.int64), kind="adagrad", slot_names=["accumulator"])
    return ops.ctrlab_embedding_norms(**given | other)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"keys": [ints(2, 1)]}, "ascend"),
        ({"keys": [ints(1, 1)]}, "ascend"),
        ({"keys": [ints(1)]}, "one for each row"),
        ({"counts": [ints(1, 0)]}, "counts must be at least 1"),
        ({"counts": [ints(1)]}, "counts of items"),
        ({"gradients": [tf.ones([2, 3])]}, "rows of 2 numbers"),
        ({"gradients": [tf.ones([2])]}, "matrix"),
        ({"gradients": [tf.constant([[1, 1], [np.nan, 1]])]}, "nan or inf for key 2"),
        ({"step": tf.constant(0, tf.int64)}, "step"),
        ({"step": tf.constant(-1, tf.int64)}, "step"),
        ({"step": tf.constant(1 << 31, tf.int64)}, "step"),
        ({"step": ints(1, 2)}, r"scalars|`step` must have 1 numbers"),
        ({"numbers": tf.zeros([5], tf.float64)}, "must be .6."),
        ({"kind": "sgd", "slot_names": []}, "has the slots .accumulator., and this one keeps .."),
        ({"slot_names": ["m"]}, "keeps .m."),
        ({"slot_names": ["m", "v"]}, "has 1 slots"),
    ],
)
def test_updates_that_do_not_fit_change_nothing(ops, variable, wrong, sentence):
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        update(ops, variable, **wrong)
    if "numbers" not in wrong:
        with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
            norms(ops, variable, **wrong)
    assert variable.rows() == 0


def test_a_table_is_stepped_once_in_a_step(ops, variable):
    twice = {name: [value] * 2 for name, value in (("keys", ints(1)), ("counts", ints(1)), ("gradients", tf.ones([1, 2])))}
    with pytest.raises(tf.errors.InvalidArgumentError, match="given once"):
        update(ops, variable, tables=[variable.resource_handle] * 2, **twice)
    with pytest.raises(tf.errors.InvalidArgumentError, match="given once"):
        norms(ops, variable, tables=[variable.resource_handle] * 2, **twice)


def test_an_empty_step_is_one(ops, variable):
    empty = dict(keys=[ints()], counts=[ints()], gradients=[tf.zeros([0, 2])])
    assert norms(ops, variable, **empty).numpy().tolist() == [0.0]
    update(ops, variable, **empty)
    assert variable.rows() == 0


@pytest.mark.parametrize("shard", [(-1, 2), (2, 2), (0, 0), (0, -1), (0,)])
def test_shards_that_are_none(ops, variable, shard):
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.ctrlab_embedding_export(handle=variable.resource_handle, shard=ints(*shard))


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": tf.zeros([1, 2], tf.int64)},
        {"keys": ints(1, 2, 3)},
        {"values": tf.zeros([2, 3])},
        {"slots": tf.zeros([1, 2, 3])},
        {"slots": tf.zeros([2, 2, 2])},
        {"slot_names": tf.constant(["a", "b", "c"]), "slots": tf.zeros([3, 2, 2])},
        {"slot_names": tf.constant(["m"])},
        {"frequencies": ints(1, -1)},
        {"frequencies": ints(1)},
        {"steps": ints(1, 1 << 31)},
        {"candidate_keys": ints(1), "candidate_counts": ints(1), "candidate_steps": ints(1)},
        {"candidate_keys": ints(9), "candidate_counts": ints(0), "candidate_steps": ints(1)},
        {"candidate_keys": ints(9)},
        {"filter": tf.zeros([3], tf.uint8)},
        {"removed": tf.zeros([1, 1], tf.int64)},
    ],
)
@pytest.mark.parametrize("kind", ["all", "more", "changes"])
def test_states_that_do_not_fit(ops, variable, wrong, kind):
    given = dict(
        keys=ints(1, 2),
        values=tf.zeros([2, 2]),
        slots=tf.zeros([1, 2, 2]),
        frequencies=ints(1, 1),
        steps=ints(1, 1),
        candidate_keys=ints(),
        candidate_counts=ints(),
        candidate_steps=ints(),
        filter=tf.zeros([0], tf.uint8),
        removed=ints(),
        slot_names=tf.constant(["accumulator"]),
    )
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.ctrlab_embedding_import(handle=variable.resource_handle, shard=ints(0, 1), kind=kind, **given | wrong)
    assert variable.rows() == 0
    ops.ctrlab_embedding_import(handle=variable.resource_handle, shard=ints(0, 1), kind=kind, **given)
    assert variable.rows() == 2


def test_slots_and_evictions_that_can_not_be(ops, variable):
    handle = variable.resource_handle
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.ctrlab_embedding_set_slots(handle=handle, slot_names=["a", "b", "c"], initial=[0.0] * 3)
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.ctrlab_embedding_set_slots(handle=handle, slot_names=["a"], initial=[])
    for limit, received in ((-1.0, "-1"), (np.nan, "nan"), (np.inf, "inf"), (1e300, "1e\\+300"), ([1.0, 2.0], "1 2")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"limit .* below 2\^53 for steps; received \[{received}\]"):
            ops.ctrlab_embedding_evict(handle=handle, rule="steps", step=1, limit=tf.constant(limit, tf.float64))


@pytest.mark.parametrize("admission", [None, CounterFilter(3), BloomFilter(3, 100, 0.01)], ids=["none", "counter", "bloom"])
def test_counts_near_the_greatest_stop_at_the_greatest_frequency(ops, admission):
    variable = EmbeddingVariable("items", 2, Options(admission=admission))
    variable.set_slots({"accumulator": 0.1})
    for counts in ((1, MOST), (MOST, MOST), (MOST - 1, 1), (1, 2**32)):
        update(ops, variable, counts=[ints(*counts)])
        state = variable.state()
    assert dict(zip(state.keys.tolist(), state.frequencies.tolist())) == {1: 2**32 - 1, 2: 2**32 - 1}
