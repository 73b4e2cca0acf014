"""The ring and the statistics of the lesson on several workers, without other processes."""

import numpy as np
import pytest
import tensorflow as tf

from ctrlab import whole_batch
from ctrlab.lessons import several_workers_study as study
from ctrlab.lessons.real_workers import part
from ctrlab.lessons.ring_by_hand import Line, Ringed, between, in_threads, moments_by
from ctrlab.whole_batch import Shard


def all_reduce(numbers, me, count, ring):
    total = numbers
    for _ in range(count - 1):
        ring.send(numbers)
        numbers = ring.receive()
        total = total + numbers
    return total


def test_threads_of_a_ring_reach_the_next_one():
    found, sent = in_threads(lambda me, ring: (ring.send(np.full(me, me)), ring.receive().tolist())[1], 3)
    assert found == [[2, 2], [], [1]] and sent == [0, 8, 16]


def test_lines_over_sockets_carry_more_than_they_buffer():
    """All send before any receives."""

    class Alone:
        shard = Shard(0, 1)
        gathered = staticmethod(lambda array: [array])

    big = np.arange(4_000_000, dtype=np.float32)
    with between(Alone()) as line:
        for _ in range(3):
            line.send(big)
        assert all(np.array_equal(line.receive(), big) for _ in range(3)) and line.sent == 3 * big.nbytes


class Inner:
    """A `SharedStep` of worker 1 of two, of whom the other has 3 rows."""

    shard, rows = Shard(1, 2), tf.constant([3, 5], tf.int64)


def echo() -> Line:
    """A ring in which the other worker has the same numbers."""
    box = []
    return Line(box.append, box.pop)


def test_sums_and_their_gradients_go_through_the_ring():
    batch, x = Ringed(Inner(), all_reduce, echo()), tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            total = batch.total(x * 3.0)
            loss = tf.reduce_sum(total * total)
        return total, tape.gradient(loss, x)

    total, gradient = step()
    np.testing.assert_array_equal(total, [[6, 12], [18, 24]])
    np.testing.assert_array_equal(gradient, 2 * total * 2 * 3)  # of both workers
    assert batch.total(tf.constant(7, tf.int64)).numpy() == 14


def test_gradients_of_whole_variables_are_summed_and_others_left():
    batch, values = Ringed(Inner(), all_reduce, echo()), [tf.Variable(tf.ones(shape)) for shape in ([2, 2], [3], [1], [])]
    values[1].sharded = True
    gradients = [tf.ones([2, 2]), tf.ones([3]), None, tf.constant(5.0)]
    found = batch.reduced(gradients, values)
    assert found[1] is gradients[1] and found[2] is None
    np.testing.assert_array_equal(found[0], 2 * np.ones([2, 2]))
    assert float(found[3]) == 10


def test_statistics_come_from_the_learner_s_function():
    seen = []

    def joined(counts, means, variances):
        seen.append((counts.numpy().tolist(), means.numpy().tolist(), variances.numpy().tolist()))
        return means[1], variances[1]

    real, x = whole_batch.moments, tf.constant([[1.0], [2.0], [3.0], [4.0], [5.0]])
    with moments_by(joined):
        with whole_batch.over(Ringed(Inner(), all_reduce, Line(lambda sent: None, lambda: np.zeros(4, np.float32)))):
            mean, variance = whole_batch.moments(x)
        alone = whole_batch.moments(x)
    assert whole_batch.moments is real and [each.numpy().tolist() for each in alone] == [[3.0], [2.0]]
    assert seen == [([3.0, 5.0], [[0.0], [3.0]], [[0.0], [2.0]])]
    assert (mean.numpy().tolist(), variance.numpy().tolist()) == ([3.0], [2.0])


@pytest.mark.parametrize("shares", [[3, 1], [1, 1, 1], [1, 0, 5]])
def test_shares_of_a_batch_have_each_row_once(shares):
    batch = {"a": np.arange(50), "b": np.arange(50) * 2}, np.arange(50)
    dealt = [part(batch, worker, shares) for worker in range(len(shares))]
    np.testing.assert_array_equal(np.concatenate([labels for _, labels in dealt]), batch[1])
    for features, labels in dealt:
        np.testing.assert_array_equal(features["a"], labels)
    assert [len(labels) for _, labels in dealt] == pytest.approx([50 * share / sum(shares) for share in shares], abs=1)


def test_this_process_counts_its_dense_weights_and_takes_steps():
    alone = study.Alone(2)
    kernels = {w.path: w.shape.num_elements() for w in alone.model.trainable_weights if "embedding" not in w.path}
    assert alone.dense == sum(kernels.values()) > 100_000
    losses = alone.losses()
    assert len(losses) == 2 and losses[1] != losses[0]
    assert alone.timed(64)(0) > 0 and alone.losses() == losses  # the cell again
    assert alone.activations().shape == (256, 512) and alone.activations().min() == 0
