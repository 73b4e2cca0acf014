"""The ring and the statistics of the lesson on several workers, without other processes."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from ctrlab.lessons.topics.several_workers import study
from ctrlab.lessons.topics.several_workers.ring_by_hand import Ringed, between, moments_by
from ctrlab.lessons.topics.several_workers.ring_in_threads import Line

from ctrlab import whole_batch
from ctrlab.data.cache import DataFiles
from ctrlab.distributed.local_workers import part
from ctrlab.embedding import EmbeddingVariable
from ctrlab.embedding.table_state import TableState
from ctrlab.errors import CtrlabError
from ctrlab.lessons import worker_losses
from ctrlab.profiling.charts import LiveChart
from ctrlab.whole_batch import Shard


def all_reduce(numbers, me, count, ring):
    total = numbers
    for _ in range(count - 1):
        ring.send(numbers)
        numbers = ring.receive()
        total = total + numbers
    return total


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


def half_a_ring(numbers, me, count, ring):
    """As the lesson's, in the words of a learner who wants float32."""
    chunks = np.array_split(numbers, count)
    total = np.asarray(chunks[me], np.float32)
    for turn in range(1, count):
        ring.send(total)
        total = np.add(ring.receive(), chunks[(me - turn) % count], dtype=np.float32)
    sums = {(me + 1) % count: total}
    for turn in range(count - 1):
        ring.send(sums[(me + 1 - turn) % count])
        sums[(me - turn) % count] = ring.receive()
    return np.concatenate([sums[number] for number in range(count)])


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
def test_the_gate_takes_a_ring_that_adds_float32(workers):
    assert study.tried(half_a_ring, workers) == (True, {2 * (workers - 1) / workers})


def test_the_gate_sees_a_wrong_ring():
    assert study.tried(all_reduce, 3) == (True, {2.0})  # sends whole gradients
    assert study.tried(lambda *given: half_a_ring(*given) / given[2], 2)[0] is False
    assert study.tried(lambda numbers, me, count, ring: numbers, 2) == (False, {0.0})


def test_losses_are_judged_as_far_as_the_tolerance_is_drawn():
    chart, one = LiveChart("", ""), np.ones(20)
    losses = {"one process": one, "two workers": one + np.r_[np.zeros(8), np.full(12, 2e-5)]}
    worker_losses.draw_difference(chart, losses)
    steps, values = chart.history["two workers"]
    assert len(steps) == 20 and values[-1] == pytest.approx(2e-5) and values[0] > 0
    assert chart.history["tolerance, as far as judged"] == (list(range(8)), [1e-5] * 8)
    assert [len(curve) for curve in worker_losses.judged(losses).values()] == [8, 8]


class Ended:
    """Workers of which one fails, or is killed in the step that is watched."""

    def __init__(self, fails_at):
        self.fails_at, self.were_killed = fails_at, []

    def run(self, task, folder, every, told):
        for step in range(6):
            if step == self.fails_at:
                raise CtrlabError("Worker 0: ValueError: one row too many")
            told(1, step, {"loss": 0.5})
            if self.were_killed:
                raise CtrlabError("Worker 1 has ended")
        return []

    def kill(self, index):
        self.were_killed.append(index)


@pytest.mark.parametrize(
    ("fails_at", "kill_at", "says"),
    [
        (0, 3, "^Worker 0: ValueError: one row too many$"),
        (2, 3, "^Worker 0: ValueError: one row too many$"),
        (9, 3, "before a save of both was written: run the cell again"),
        (9, 7, "ended before step 7"),
    ],
)
def test_a_training_that_was_not_killed_says_why_it_ended(tmp_path, fails_at, kill_at, says):
    workers = Ended(fails_at)
    with pytest.raises(CtrlabError, match=says):
        study.killed(workers, tmp_path / "run", 2, kill_at, lambda *_: None)
    assert workers.were_killed == ([1] if fails_at == 9 and kill_at == 3 else [])


def test_workers_that_began_anew_build_what_is_timed(monkeypatch):
    """`_by_hand` needs the learner's functions, which the notebook still has."""
    monkeypatch.setattr(study, "_by_hand", lambda member, *functions: member.kept.update({study.YOURS: functions}))
    monkeypatch.setattr(study, "built", lambda: (None, None))
    monkeypatch.setattr(study, "train_step", lambda *_: None)
    monkeypatch.setattr(study, "traced", lambda step, model: "ours")
    member = SimpleNamespace(kept={}, workers=SimpleNamespace(building=contextlib.nullcontext, first=True))
    study.ready(member, all_reduce, "joined")
    assert member.kept[study.YOURS] == (all_reduce, "joined") and len(member.kept) == 3
    member.kept[study.YOURS] = "trained before"
    study.ready(member, all_reduce, "joined")
    assert member.kept[study.YOURS] == "trained before"


def test_a_table_that_counted_other_rows_is_seen_though_the_sums_are_equal():
    table, of_files = EmbeddingVariable("counted", 2), {5: 2, 6: 1, 7: 3}
    for counted, right in (([2, 1, 3], (0, 0)), ([1, 2, 3], (1, 1)), ([4, 1, 0], (3, 2)), ([2, 1, 5], (0, 2))):
        times = np.array(counted)
        table.load_state(TableState(np.array([5, 6, 7]), np.ones((3, 2), np.float32), {}, times, np.ones(3, np.int64)))
        assert study.differences(table, of_files) == right
    assert study.differences(table, of_files | {9: 4}) == (4, 2)


@pytest.mark.parametrize("wrong", [False, True], ids=["each row once", "half of them twice"])
def test_each_row_of_a_training_is_counted_by_key(tmp_path, monkeypatch, wrong):
    real = DataFiles.read_train_dealt

    def twice(*given, **options):
        batches = real(*given, **options)
        return batches.take(8).repeat(2)  # of 16

    if wrong:
        monkeypatch.setattr(DataFiles, "read_train_dealt", twice)
    after = study.resumed(tmp_path / "run", 1_000, lambda *_: None)
    assert len(after.lost) > 1 and after.history[-1][0] == 1
    found = max(after.lost.values()), max(after.repeated.values())
    assert min(found) > 100 if wrong else found == (0, 0)
