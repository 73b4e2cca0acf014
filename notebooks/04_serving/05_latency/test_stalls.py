"""Lines to servers that stall, simulated and real."""

import math
import threading
import time

import pytest
from ctrlab.lessons.topics.latency import stalls
from ctrlab.lessons.topics.latency.stalls import SimulatedLine
from solved import solved

from ctrlab.errors import CtrlabError
from ctrlab.load.queueing import NEVER, Queue, run

open_loop = solved("04_serving/05_latency", 1)


def test_a_simulated_server_answers_first_come_first_served():
    assert stalls.simulated(open_loop, [0, 5, 100], 10) == [10, 15, 10]
    assert stalls.simulated(open_loop, [0, 5, 100], [10, 20, 30], workers=2) == [10, 20, 30]
    assert stalls.simulated(open_loop, [0, 5, 100], 10, pauses=[(4, 60), (60, 70)]) == [10, 75, 10]
    assert stalls.simulated(open_loop, [0, 5, 100], 10, refused=[1]) == [10, math.inf, 10]
    assert stalls.simulated(open_loop, [3], 10, tick=50) == [57]


def test_both_simulations_of_a_queue_agree():
    due = stalls.schedule(900, 3.0, seed=4)
    queue = Queue(1, lambda batch, now: 1_000)
    expected = [call.ends - call.batch[0] for _, call in run((at, queue, at) for at in due)]
    assert stalls.simulated(open_loop, due, 1_000) == expected and max(expected) > 3_000


def test_the_clock_moves_only_while_one_waits():
    line = SimulatedLine([10, 10])
    line.send(0)
    assert (line.now(), line.wait(4), line.now()) == (0, [], 4)
    line.send(1)
    assert line.wait(NEVER) == [(0, 10)] and line.wait(3) == [] and line.now() == 10
    assert line.wait(NEVER) == [(1, 20)] and line.sent == {0: 0, 1: 4} and line.waits == 4


def test_what_a_simulated_line_does_not_do():
    line = SimulatedLine([1], most_waits=2)
    for number in (1, -1):
        with pytest.raises(CtrlabError, match="sent once"):
            line.send(number)
    with pytest.raises(CtrlabError, match="never ends"):
        line.wait(NEVER)
    line.send(0)
    with pytest.raises(CtrlabError, match="sent once"):
        line.send(0)
    assert line.wait(NEVER) == [(0, 1)]
    with pytest.raises(CtrlabError, match="has looked 3 times"):
        line.wait(5)


def test_a_percentile_counts_all_requests():
    assert stalls.percentile([3, 1, 2, math.inf], 75) == 3 and stalls.percentile([3, 1, 2, math.inf], 76) == math.inf
    assert stalls.percentile(range(1, 101), 99) == 99


def test_a_schedule_comes_at_its_rate():
    due = stalls.schedule(1_000, 5.0)
    assert due == sorted(due) == stalls.schedule(1_000, 5.0) != stalls.schedule(1_000, 5.0, seed=1)
    assert 4_500 < len(due) < 5_500 and due[-1] < 5_000_000 and type(due[0]) is int


def test_a_real_server_answers_in_its_thread_and_stalls():
    """Nothing here depends on how fast it is: only on what comes after what."""
    threads, calls = threading.active_count(), []
    with stalls.Server(lambda: calls.append(threading.current_thread().name)) as server:
        assert server.ask().result() is None and server.capacity() > 0
        pause = 200_000
        took = stalls.run(open_loop, server, [0, 1_000, 400_000], pauses=[(0, pause)])
        assert len(took) == 3 and all(0 < each < math.inf for each in took)
        begun = time.monotonic()
        server.pause(50_000)
        server.ask().result()
        assert time.monotonic() - begun >= 0.05
    assert len(set(calls)) == 1 and threading.active_count() == threads


def test_a_failed_answer_is_endless():
    def fails():
        raise ValueError("refused")

    with stalls.Server(fails) as server:
        assert stalls.run(open_loop, server, [0, 10]) == [math.inf, math.inf]


def test_the_packages_search_runs_on_a_simulated_server():
    run = stalls.trial(open_loop, 1_000, 1.0)
    most = stalls.most_as_the_package(run, 20_000, 100.0)
    assert 600 < most < 1_100 and stalls.percentile(run(500, 3), 99) < 20_000 < stalls.percentile(run(1_500, 3), 99)
    assert stalls.most_as_the_package(run, 1, 2.0) == 0
