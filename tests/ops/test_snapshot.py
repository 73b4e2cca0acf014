"""The snapshot holds the sources' bytes, leaves readers of an earlier one alone, and refuses pairs that do not match."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab.errors import CtrlabError
from ctrlab.ops import snapshot

DTYPES = ["float32", "float64", "int64", "uint32", "bool", "bfloat16"]


def pair(shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).integers(0, 2**16, shape)
    return tf.Variable(tf.cast(values, dtype)), tf.Variable(tf.zeros(shape, dtype))


@pytest.mark.parametrize("implementation", [snapshot.baseline, snapshot.fused])
@settings(max_examples=30, deadline=None)
@given(shapes=st.lists(st.lists(st.integers(0, 70), max_size=3), min_size=1, max_size=5), data=st.data())
def test_every_byte_is_copied(implementation, shapes, data):
    pairs = [pair(shape, data.draw(st.sampled_from(DTYPES)), seed) for seed, shape in enumerate(shapes)]
    expected = [np.zeros(source.shape, source.dtype.as_numpy_dtype) for source, _ in pairs]
    snapshot.OP.reference([source.numpy() for source, _ in pairs], expected)
    implementation([source for source, _ in pairs], [target for _, target in pairs])
    for (source, target), value in zip(pairs, expected):
        assert target.numpy().tobytes() == value.tobytes() == source.numpy().tobytes()


def test_more_than_every_thread_takes_at_once():
    source, target = pair((300_000, 17))
    snapshot.fused([source], [target])
    np.testing.assert_array_equal(target.numpy(), source.numpy())


def test_the_memory_is_used_again():
    source, target = pair((1000, 16))
    address = np.asarray(memoryview(target.read_value())).ctypes.data
    for value in range(3):
        source.assign_add(tf.ones(source.shape) * value)
        snapshot.fused([source], [target])
        assert np.asarray(memoryview(target.read_value())).ctypes.data == address


def test_who_still_reads_a_snapshot_keeps_it():
    source, target = pair((1000, 16))
    snapshot.fused([source], [target])
    view = np.asarray(memoryview(target.read_value()))
    kept = view.copy()
    source.assign_add(tf.ones(source.shape))
    snapshot.fused([source], [target])
    np.testing.assert_array_equal(view, kept)
    np.testing.assert_array_equal(target.numpy(), kept + 1)


def test_later_updates_do_not_reach_a_snapshot():
    source, target = pair((100, 4))
    before = source.numpy()
    snapshot.fused([source], [target])
    source.scatter_update(tf.IndexedSlices(-tf.ones([2, 4]), [3, 99]))
    source.assign_add(tf.ones(source.shape))
    np.testing.assert_array_equal(target.numpy(), before)


@pytest.mark.parametrize(
    ("sources", "targets", "says"),
    [
        ([((2, 3), "float32")], [((3, 2), "float32")], "must have its source's type and shape"),
        ([((2,), "float32")] * 2, [((2,), "float32"), ((2,), "int32")], "target 1 is"),
        ([((2,), "string")], [((2,), "string")], "Only plain numbers"),
    ],
)
def test_pairs_that_do_not_match(sources, targets, says):
    made = [[tf.Variable(tf.zeros(*entry)) for entry in side] for side in (sources, targets)]
    with pytest.raises(tf.errors.InvalidArgumentError, match=says):
        snapshot.fused(*made)


@pytest.mark.parametrize("sources,targets", [("a", "a"), ("ab", "bc"), ("ab", "cc")])
def test_what_would_be_written_twice_or_while_it_is_read(sources, targets):
    made = {name: tf.Variable(tf.zeros(3)) for name in "abc"}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"no source, .*target"):
        snapshot.fused([made[name] for name in sources], [made[name] for name in targets])


@pytest.mark.parametrize("implementation", [snapshot.baseline, snapshot.fused])
@pytest.mark.parametrize("count", [0, 2])
def test_one_target_a_source(implementation, count):
    source, target = pair((3,))
    with pytest.raises(CtrlabError, match="one target per source"):
        implementation([source] * (count > 0), [target] * count)
