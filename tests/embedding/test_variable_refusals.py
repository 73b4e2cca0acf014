"""An embedding variable and its optimizer refuse invalid calls, in one sentence, before anything changes."""

import copy

import numpy as np
import pytest
import tensorflow as tf
from reference_pairs import Pair, same

from ctrlab.embedding import EmbeddingVariable, L2Eviction, Options
from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.training import TouchedRows


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_not_finite_is_refused_before_anything_changes(bad):
    variables = [EmbeddingVariable(name, 2) for name in ("users", "items")]
    weight = tf.Variable([1.0])
    optimizer = TouchedRows("adagrad", 0.1, rungs=["lookup"])
    owners = [v.proxy for v in variables] + [weight]
    optimizer.build(owners)
    good, odd = np.ones((2, 2), np.float32), np.array([[1, 1], [1, bad]], np.float32)
    slices = [tf.IndexedSlices(tf.constant(g), tf.constant([4, 9], tf.int64)) for g in (good, odd)]
    for apply in (optimizer.apply, lambda gradients, _: tf.function(optimizer.apply)(gradients)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="items received nan or inf for key 9"):
            apply([*slices, tf.constant([1.0])], owners)
        assert [v.stats().rows for v in variables] == [0, 0] and weight.numpy() == [1.0]


@pytest.mark.parametrize(
    ("indices", "values", "sentence"),
    [
        (tf.constant([1], tf.int32), tf.zeros([1, 2]), "under int32"),
        (tf.constant([1], tf.int64), tf.zeros([1, 3]), "rows of 2"),
        (tf.constant([1], tf.int64), tf.zeros([1, 2], tf.float64), "received float64"),
    ],
)
def test_a_gradient_of_another_kind_is_refused(indices, values, sentence):
    variable = EmbeddingVariable("items", 2)
    with pytest.raises(CtrlabError, match=sentence):
        TouchedRows("sgd").apply([tf.IndexedSlices(values, indices)], [variable.proxy])
    with pytest.raises(CtrlabError, match="received a dense one"):
        TouchedRows("sgd").apply([tf.zeros([0, 2])], [variable.proxy])


def test_keys_must_be_int64():
    with pytest.raises(CtrlabError, match="received int32"):
        EmbeddingVariable("items", 2).lookup(tf.constant([1]))


def test_two_optimizers_do_not_share_a_table():
    variable = EmbeddingVariable("items", 2)
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1], tf.int64))
    first, second = TouchedRows("ftrl"), TouchedRows("adam_async")
    first.apply([slices], [variable.proxy])
    second.apply([slices], [variable.proxy])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"slots \[m, v\], .*\[accumulator, linear\]"):
        first.apply([slices], [variable.proxy])


def test_what_an_embedding_variable_can_not_be():
    for dim in (0, 1 << 16, 2.5, "16"):
        with pytest.raises(CtrlabError, match=r"^The dim of .* items must be a whole number in \[1, 2\^16\); received"):
            EmbeddingVariable("items", dim)
    for name in ("a/b", "", "..", "a\0b", "a\nb", None):
        with pytest.raises(CtrlabError, match=r"must be printable text.*without a slash; received"):
            EmbeddingVariable(name, 2)
    with pytest.raises(CtrlabError, match="option `eviction`"):
        EmbeddingVariable("items", 2).evict()
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope(), pytest.raises(CtrlabError, match="can't be mirrored"):
        EmbeddingVariable("items", 2)


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    pair = Pair(dim=2)
    pair.update([1, 2], np.ones((2, 2)))
    state, other = pair.variable.state(), EmbeddingVariable("other", 3)
    with pytest.raises(CtrlabError, match="other"):
        other.load_state(state)
    for change, sentence in [
        ({"keys": np.array([5, 5])}, "5"),
        ({"frequencies": np.array([-1, 1])}, "frequenc"),
        ({"steps": np.array([1, -1])}, "step"),
        ({"slots": {"m": state.values}}, "accumulator"),
        ({"slots": {"accumulator": state.values[:, :1]}}, r"^Slots must be as values are, \(2, 2\)"),
        ({"keys": np.array([1.7, 2])}, r"^The keys of \w+ must be int64; received float64: cast them\.$"),
        ({"keys": np.array([1, 2**64 - 1], np.uint64)}, "received uint64"),
    ]:
        with pytest.raises(CtrlabError, match=sentence):
            pair.variable.load_state(type(state)(**vars(state) | change))
        same(pair.variable.state(), pair.reference.state())
    with pytest.raises(UnknownName, match="way to take a state 'replace'"):
        pair.variable.load_state(state, how="replace")


def test_only_the_version_of_a_cut_is_confirmed():
    pair = Pair(dim=2)
    pair.update([1, 2, 3], np.ones((3, 2)))
    cut = pair.variable.cut("copy")
    for version in (cut.version + 1, cut.version - 1, -1):
        with pytest.raises(CtrlabError, match=rf"^Embedding variable items: A consumer confirms .*; copy confirms {version},"):
            pair.variable.confirm("copy", version)
    list(cut.parts())
    with pytest.raises(CtrlabError, match=r"read once; .*another cut"):
        next(cut.parts())
    with pytest.raises(CtrlabError, match="room for at least 1 row; received 0"):
        next(pair.variable.cut("copy").parts(0))
    pair.variable.confirm("nobody", 7)  # a consumer that was forgotten stays so
    assert pair.variable.cut("nobody").since is None


def test_a_consumer_confirms_the_last_of_its_cuts_or_those_after_the_one_it_confirmed():
    variable = EmbeddingVariable("items", 2)
    cuts = [variable.cut("copy").version for _ in range(2)]
    with pytest.raises(CtrlabError, match=rf"copy confirms {cuts[0]}, its last cut was of version {cuts[1]}"):
        variable.confirm("copy", cuts[0])  # it has confirmed none: the last alone
    variable.confirm("copy", cuts[1])
    cuts += [variable.cut("copy").version for _ in range(3)]
    variable.confirm("copy", cuts[3])
    for late in cuts[:3]:
        with pytest.raises(CtrlabError, match=f"copy confirms {late},"):
            variable.confirm("copy", late)
    variable.confirm("copy", cuts[3])
    variable.confirm("copy", cuts[4])


def test_it_is_not_copied():
    variable = EmbeddingVariable("items", 2)
    with pytest.raises(CtrlabError, match=r"copy\.deepcopy of items: "):
        copy.deepcopy({"kept": variable})


def test_a_stage_is_of_its_own_variable():
    pair, other = Pair(dim=2), Pair(dim=3)
    pair.update([1, 2, 3], np.ones((3, 2)))
    foreign = (
        r"^Embedding variable items: A table adopts a stage that it made and has not adopted yet; received another: "
        r"stage the state anew\.$"
    )
    for variable in (other.variable, Pair(dim=2).variable):
        with pytest.raises(CtrlabError, match=foreign):
            pair.variable.adopt(variable.stage())
    before = pair.variable.state()
    stage = pair.variable.stage()
    stage.load_state(before)
    with pytest.raises(CtrlabError, match="must be int64"):
        stage.load_state(type(before)(**vars(before) | {"keys": np.array([1.5, 2, 3])}))
    same(pair.variable.state(), pair.reference.state())
    pair.variable.adopt(stage)
    same(pair.variable.state(), pair.reference.state())
    with pytest.raises(CtrlabError, match=foreign):
        pair.variable.adopt(stage)
    same(pair.variable.state(), pair.reference.state())


@pytest.mark.parametrize("rate", [np.nan, np.inf])
def test_a_learning_rate_that_is_not_finite_is_refused(rate):
    pair = Pair(dim=2)
    pair.update([1], np.ones((1, 2)))
    pair.optimizer.learning_rate = rate
    with pytest.raises(tf.errors.InvalidArgumentError, match="A learning rate must be finite"):
        pair.optimizer.apply([tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1], tf.int64))], [pair.variable.proxy])
    same(pair.variable.state(), pair.reference.state())


def test_training_under_a_distribution_strategy_is_refused():
    variable, optimizer = EmbeddingVariable("items", 2), TouchedRows("sgd")
    optimizer.build([variable.proxy])
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1], tf.int64))
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope(), pytest.raises(CtrlabError, match="under a distribution strategy"):
        optimizer.apply([slices], [variable.proxy])
    assert variable.rows() == 0


def test_an_eviction_by_norm_takes_any_threshold_that_its_option_takes():
    variable = EmbeddingVariable("items", 2, Options(eviction=L2Eviction(1e30)))
    TouchedRows("sgd").apply([tf.IndexedSlices(tf.ones([3, 2]), tf.range(3, dtype=tf.int64))], [variable.proxy])
    assert variable.evict() == 3


def test_what_is_of_another_type_is_one_sentence():
    with EmbeddingVariable("items", 2) as variable:
        for act in (variable.cut, variable.caught_up, variable.forget, lambda name: variable.confirm(name, 1)):
            with pytest.raises(CtrlabError, match=r'^A consumer of changes has a name, such as "server"; received None\.$'):
                act(None)
        with pytest.raises(CtrlabError, match=r"version of a cut.*received None"):
            variable.confirm("server", None)
        with pytest.raises(CtrlabError, match=r"^Embedding variable items looks up int64 keys; received None\.$"):
            variable.lookup(None)
        with pytest.raises(CtrlabError, match=r"`stage` .*received None"):
            variable.adopt(None)
    with pytest.raises(CtrlabError, match=r"^Embedding variable items takes a TableState, as `state` gives it; received None\.$"):
        variable.load_state(None)
