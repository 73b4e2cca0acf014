"""What the lesson on shards counts and times, and the learner's exchange inside a step, in one process."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from ctrlab.lessons.topics.shards import study
from ctrlab.lessons.topics.shards.exchange_by_hand import FIELDS, ByHand, Exchanged
from solved import solved

from ctrlab.embedding import EmbeddingVariable
from ctrlab.embedding.table.ops import grouped
from ctrlab.lessons.check import CheckFailed
from ctrlab.ops.lookup import Layout
from ctrlab.whole_batch import Shard

LESSON = "03_embedding/10_shards"
requests, merge = solved(LESSON, 1), solved(LESSON, 2)


def ask(ids, workers):
    return requests(ids, workers, lambda keys, workers: keys % workers)


class Alone:
    """A `SharedStep` of one worker: what it sends comes back."""

    shard, rows = Shard(0, 1), None
    total = exchanged = staticmethod(lambda x, number=None: x)


@pytest.fixture(scope="module")
def sample():
    return study.Sample(2)


def test_parts_have_each_id_once(sample):
    whole = sample.ids(1)[0]
    assert set(whole) >= {"user_id", "item_id"} and len(whole["user_id"]) == sample.batch_size
    for workers in (2, 7):
        for table, ids in whole.items():
            found = np.concatenate([part[table] for part in sample.ids(workers)])
            np.testing.assert_array_equal(np.sort(found), np.sort(ids))


def test_losses_and_rows_are_those_of_a_training(sample):
    losses = sample.alone()
    assert len(losses) == 2 and losses[1] != losses[0]
    rows = sample.rows()
    assert sample.alone() == losses and sample.rows() == rows > 1_000  # the cell again


def test_a_way_back_that_loses_a_gradient_or_a_key_is_refused():
    ids, gradients = [np.array([7, 9, 7]), np.array([9, 4])], [np.array([[3], [5], [1]], np.float32), np.ones((2, 1), np.float32)]
    even, odd = (np.array([4]), np.ones((1, 1), np.float32)), (np.array([7, 9]), np.array([[4], [6]], np.float32))
    study.require_sums([even, odd], ids, gradients)
    for wrong, said in (((odd[0], odd[1] - [[1], [0]]), "sums(?s:.*)row 1"), ((odd[0][:1], odd[1][:1]), "keys"), (even, "keys")):
        with pytest.raises(CheckFailed, match=said):
            study.require_sums([even, (wrong[0], wrong[1].astype(np.float32))], ids, gradients)


def test_popular_ids_follow_zipf():
    ids = study.popular(np.random.default_rng(0), 100_000, 1_000)
    counts = np.bincount(ids, minlength=1_000)
    assert ids.min() == 1 and ids.max() == 999
    assert counts[1] / counts[10:20].mean() == pytest.approx(10, rel=0.1)  # log 2 to log(20 / 10) / 10


def test_the_learner_s_functions_are_those_of_a_lookup():
    """Values, gradients, and how often each key came, of three columns in two tables."""
    table, other = EmbeddingVariable("a", 4), EmbeddingVariable("b", 4)
    lists = tf.RaggedTensor.from_row_lengths(tf.constant([7, 7, -3, 2], tf.int64), [3, 0, 1])
    columns = [tf.constant([7, 9, 7], tf.int64), lists, tf.constant([9, 9, 1], tf.int64)]
    layout = Layout((0, 0, 1), ("sum", "mean", "sum"), (0, 0, 1))
    exchanged, weights = Exchanged(), tf.reshape(tf.range(24.0), [3, 8])

    def read(tables, columns, layout, times=()):
        return grouped(tables, columns, layout, True, times)

    @tf.function(autograph=False)
    def gradients(by_hand):
        with tf.GradientTape() as tape:
            lookup = ByHand(Alone(), ask, merge, exchanged).lookup if by_hand else None
            found = lookup(read, [table, other], columns, layout, True) if by_hand else read([table, other], columns, layout)
            loss = tf.reduce_sum(found[0] * weights) + tf.reduce_sum(found[1])
        of = tape.gradient(loss, [table.proxy.value, other.proxy.value])
        return found, [(each.indices, each.values) for each in of]

    (expected, right), (found, slices) = gradients(False), gradients(True)
    for a, b in zip(expected, found):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    for (keys, rows), (found_keys, found_rows) in zip(right, slices):
        np.testing.assert_array_equal(np.sort(keys), np.sort(found_keys))  # an index per occurrence
        np.testing.assert_allclose(
            *(merge(k.numpy(), r.numpy())[1] for k, r in ((keys, rows), (found_keys, found_rows))), rtol=1e-6
        )
    assert exchanged.bytes(4) == 0  # to others


def test_requests_of_two_workers_come_to_one_row():
    asked = [ByHand(SimpleNamespace(shard=Shard(w, 2), rows=None), ask, merge, Exchanged()) for w in range(2)]
    sent = [each._asked(np.array([7, 4, 7, 2]) + 2 * w, np.array([1])) for w, each in enumerate(asked)]
    (rows, to_each, first, second), _ = sent
    assert rows.tolist() == [[2, 0, 1], [4, 0, 1], [7, 0, 2], [1, 1, 1]] and to_each.tolist() == [2, 2]
    assert first.tolist() == [2, 1, 2, 0] and second.tolist() == [3]
    came = np.zeros((2, 3, FIELDS), np.int64)  # at worker 1, padded to 3
    for w, (rows, *_) in enumerate(sent):
        came[w, :2] = rows[2:]
    slots, row_of, keys, ends, *distinct = asked[1]._came(came, 2)
    assert slots.tolist() == [0, 3, 1, 4] and keys.tolist() == [7, 9, 1, 1] and ends.tolist() == [2, 4]
    assert row_of.tolist() == [0, 1, 2, 2] and [each.tolist() for each in distinct] == [[[7, 2], [9, 2]], [[1, 2]]]
    assert asked[0]._exchanged.keys == 2 and asked[1]._exchanged.rows == 2
