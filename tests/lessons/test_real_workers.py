"""Processes that a notebook starts: they run what it sends, say how far they are, and end with each other."""

import contextlib
import os

import pytest

from ctrlab.errors import CtrlabError
from ctrlab.lessons import real_workers
from ctrlab.lessons.real_workers import RealWorkers


def alive(pids):
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


@pytest.mark.timeout(300)  # two processes that import TensorFlow
def test_workers_run_what_they_are_sent(monkeypatch):
    workers, told = RealWorkers(2), []
    pids = [process.pid for process in workers._processes]
    factor = 10  # goes with the function

    def task(member, x):
        import numpy as np

        shard, member.kept["x"] = member.workers.shard, x
        parts = member.workers.gathered(np.array([shard.index]))  # they are connected
        member.tell(shard.index, number=factor * x)
        return shard.index, np.concatenate(parts).tolist(), len(os.sched_getaffinity(0))

    cores = 1 if len(os.sched_getaffinity(0)) > 1 else len(os.sched_getaffinity(0))
    found = workers.run(task, 4, told=lambda *said: told.append(said))
    assert found == [(0, [0, 1], cores), (1, [0, 1], cores)]
    assert sorted(told) == [(0, 0, {"number": 40}), (1, 1, {"number": 40})]
    assert workers.run(lambda member: member.kept["x"] + member.workers.shard.index, on=[1]) == [5]

    def fails(member):
        if member.workers.shard.index:
            raise ValueError("one row too many")

    with pytest.raises(CtrlabError, match=r"^Worker 1: ValueError: one row too many\n.*mend this, then run the cell again\.$"):
        workers.run(fails)
    assert not alive(pids)
    assert workers.run(lambda member: dict(member.kept)) == [{}, {}]  # others, which begin anew
    workers.close()


def test_a_worker_that_ends_ends_the_others(monkeypatch):
    """Without TensorFlow: what a process does is replaced."""
    monkeypatch.setattr(real_workers, "PROGRAM", "import time; time.sleep(100)")
    workers = RealWorkers(3)
    pids = [process.pid for process in workers._processes]
    workers.kill(1)
    with pytest.raises(CtrlabError, match=r"^Worker 1 has ended, and the others with it: run the cell again"):
        workers.run(len)
    assert not alive(pids)


@pytest.mark.parametrize("ends", [lambda workers: workers.kill(0), lambda workers: workers.close()], ids=["kill", "close"])
def test_the_cell_that_failed_may_run_again(monkeypatch, ends):
    answering = """
import pickle, sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
while True:
    connection.recv_bytes()
    connection.send_bytes(pickle.dumps(("done", 7)))
"""
    monkeypatch.setattr(real_workers, "PROGRAM", answering)
    workers = RealWorkers(2)
    first = [process.pid for process in workers._processes]
    assert workers.run(len) == [7, 7]
    ends(workers)
    with contextlib.suppress(CtrlabError):
        workers.run(len)
    assert not alive(first) and workers.run(len) == [7, 7]
    newer = RealWorkers(1)
    second = [process.pid for process in newer._processes]
    assert workers.run(len) == [7, 7] and not alive(second)  # only one set of workers at a time
    workers.close()


def test_another_start_ends_those_of_before(monkeypatch):
    monkeypatch.setattr(real_workers, "PROGRAM", "import time; time.sleep(100)")
    first = [process.pid for process in RealWorkers(1)._processes]
    second = RealWorkers(1)
    assert not alive(first) and alive([process.pid for process in second._processes])
    second.close()


def test_of_an_error_inside_a_step_its_own_line_comes_first():
    import tensorflow as tf

    def merge(x):
        raise ValueError("one row too many")

    step = tf.function(lambda x: tf.numpy_function(merge, [x], tf.float32), autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError) as problem:
        step(tf.zeros(2))
    raised, rest = real_workers._told_of(problem.value)
    assert raised == "ValueError: one row too many" and "in merge" in rest
    assert real_workers._told_of(KeyError("a")) == ("KeyError: 'a'", "")


class Lab:
    def __init__(self):
        self.charts = {}

    def live_chart(self, title, y):
        from ctrlab.profiling.charts import LiveChart

        self.charts[title] = LiveChart(title, y)
        return self.charts[title]


def test_charts_have_a_curve_per_worker():
    lab = Lab()
    with real_workers.live_charts(lab, {"loss": "Loss", "megabytes": "Sent, so far, MB"}) as told:
        told(1, 0, {"loss": 0.7, "megabytes": 2.0})
        told(1, 1, {"loss": 0.6, "megabytes": 3.0})
        told(0, 0, {"loss": 0.7, "megabytes": 1.0})
    assert list(lab.charts) == ["Loss", "Sent, so far"]
    assert lab.charts["Sent, so far"].history == {"worker 0": ([0], [1.0]), "worker 1": ([0, 1], [2.0, 3.0])}
    assert list(lab.charts["Loss"].history) == ["worker 0", "worker 1"]
