"""Processes that a notebook starts: they run what it sends, say how far they are, and end with each other."""

import contextlib
import os
import pickle
import subprocess
import sys
import threading

import pytest

from ctrlab.distributed import local_workers
from ctrlab.distributed.local_workers import LocalWorkers, packed
from ctrlab.errors import CtrlabError

pytestmark = pytest.mark.usefixtures("forked_processes")


def alive(pids):
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


@pytest.mark.timeout(300)  # two processes that import TensorFlow
def test_workers_run_what_they_are_sent(monkeypatch):
    workers, told = LocalWorkers(2), []
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
    monkeypatch.setattr(local_workers, "PROGRAM", "import time; time.sleep(100)")
    workers = LocalWorkers(3)
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
    monkeypatch.setattr(local_workers, "PROGRAM", answering)
    workers = LocalWorkers(2)
    first = [process.pid for process in workers._processes]
    assert workers.run(len) == [7, 7]
    ends(workers)
    with contextlib.suppress(CtrlabError):
        workers.run(len)
    assert not alive(first) and workers.run(len) == [7, 7]
    newer = LocalWorkers(1)
    second = [process.pid for process in newer._processes]
    assert workers.run(len) == [7, 7] and not alive(second)  # only one set of workers at a time
    workers.close()


def test_another_start_ends_those_of_before(monkeypatch):
    monkeypatch.setattr(local_workers, "PROGRAM", "import time; time.sleep(100)")
    first = [process.pid for process in LocalWorkers(1)._processes]
    second = LocalWorkers(1)
    assert not alive(first) and alive([process.pid for process in second._processes])
    second.close()


def test_of_an_error_inside_a_step_its_own_line_comes_first():
    import tensorflow as tf

    def merge(x):
        raise ValueError("one row too many")

    step = tf.function(lambda x: tf.numpy_function(merge, [x], tf.float32), autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError) as problem:
        step(tf.zeros(2))
    raised, rest = local_workers._told_of(problem.value)
    assert raised == "ValueError: one row too many" and "in merge" in rest
    assert local_workers._told_of(KeyError("a")) == ("KeyError: 'a'", "")


NOTEBOOK = """
import numpy as np

lock = __import__("threading").Lock()  # can't be pickled
scale = 10


def helper(x, *, by=3):
    return x * by


def ask(x, times=2):
    if x == 0:
        return np.zeros(1, np.int64)
    squares = [scale * helper(each) for each in range(x)]
    return np.array(squares) + times + ask(x - 1)[0]


def outer(n):
    return lambda x: (n, helper(x))


def uses_the_lock():
    return lock
"""


@pytest.fixture
def notebook():
    """Names of a notebook, whose functions say that they are of `__main__`."""
    names = {"__name__": "__main__"}
    exec(compile(NOTEBOOK, "<cell>", "exec"), names)
    return names


def test_a_notebooks_functions_arrive_in_another_process_as_they_were(notebook):
    """They arrive with the functions, a module and a number that they use, their defaults, themselves and their closure."""
    right = (notebook["ask"](4).tolist(), notebook["outer"](7)(4))
    code = "import pickle, sys; f, g = pickle.loads(sys.stdin.buffer.read()); print((f(4).tolist(), g(4)))"
    data = packed((notebook["ask"], notebook["outer"](7)))
    ran = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True)
    assert ran.stdout.decode().strip() == str(right), ran.stderr.decode()


def test_what_can_be_imported_is_named():
    assert pickle.loads(packed(packed)) is packed and len(packed(packed)) < 100


def test_what_can_not_go_along_is_one_sentence(notebook):
    for thing in (notebook["uses_the_lock"], threading.Lock()):
        with pytest.raises(CtrlabError, match=r"^What a function uses goes with it .*cannot pickle '_thread\.lock'") as problem:
            packed(thing)
        assert "\n" not in str(problem.value)
