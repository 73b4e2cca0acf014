"""Threads that run one at a time, in every order."""

import itertools
import subprocess
import sys
import threading

import pytest
from ctrlab.lessons.topics.updates.orders import every_order

from ctrlab.lessons.interleaving import LOOKS, Stuck, Threads, _Thread


def orders(bodies):
    """The result of each order of threads that record their name at each point."""
    seen = []

    def run(choose):
        with Threads() as threads:
            for name, points in bodies.items():
                threads.start(name, lambda points=points: [threads.pause() for _ in range(points)])
            while names := threads.can_go():
                threads.go(choose(names))
            seen.append("".join(threads.order))

    for _ in every_order(run):
        pass
    return seen


def test_every_order_is_tried_once():
    assert sorted(orders({"a": 1, "b": 2})) == sorted({"".join(p) for p in itertools.permutations("aabbb")})


def test_a_thread_that_comes_to_no_point_is_told_of(monkeypatch):
    monkeypatch.setattr("ctrlab.lessons.interleaving.PATIENCE", 0.1)
    with Threads() as threads:
        threads.start("spins", lambda: [None for _ in itertools.count()])
        with pytest.raises(Stuck, match="spins"):
            threads.go("spins")


def test_a_thread_that_spins_ends(monkeypatch):
    monkeypatch.setattr("ctrlab.lessons.interleaving.PATIENCE", 0.1)
    before = threading.active_count()
    with Threads() as threads, pytest.raises(Stuck):
        threads.start("spins", lambda: [None for _ in itertools.count()])
        threads.go("spins")
    for _ in range(100):
        if threading.active_count() == before:
            return
        threading.Event().wait(0.05)
    raise AssertionError("it still spins")


def test_a_thread_that_looks_again_and_again_is_told_of():
    with Threads() as threads:
        condition = threads.condition()

        def looks():
            while True:
                with condition:
                    pass

        threads.start("looks", looks)
        with pytest.raises(Stuck, match="looks"):
            threads.go_on("looks")


def test_a_thread_that_waits_or_pauses_between_may_look_often():
    with Threads() as threads:
        condition = threads.condition()

        def waits():
            for _ in range(2 * LOOKS):
                with condition:
                    condition.wait()

        def wakes():
            for _ in range(2 * LOOKS):
                with condition:
                    condition.notify_all()
                threads.pause()

        threads.start("waits", waits)
        threads.start("wakes", wakes)
        for _ in range(2 * LOOKS):
            assert (threads.go_on("waits"), threads.go_on("wakes")) == ("waits", "inside")
        assert (threads.go_on("waits"), threads.go_on("wakes")) == ("done", "done")


def test_what_the_standard_library_does_is_never_ended_halfway():
    thread, semaphore = _Thread("over", lambda: None), threading.Semaphore()
    thread.ends = True
    before = sys.gettrace()
    sys.settrace(thread._ends_what_spins)
    try:
        assert semaphore.acquire()
    finally:
        sys.settrace(before)


IN_A_LOCK = """
import sys, threading
from ctrlab.lessons import interleaving
from ctrlab.lessons.interpreter import interpreted

interleaving.PATIENCE = 0.1
held = threading.Lock()
held.acquire()
with interleaving.Threads() as threads:
    threads.start("waits", held.acquire)
    try:
        threads.go("waits")
    except interleaving.Stuck:
        print(interpreted(lambda: None, most=9) > 0)
"""


def test_after_a_thread_that_waits_for_ever_functions_can_be_traced():
    found = subprocess.run([sys.executable, "-c", IN_A_LOCK], capture_output=True, text=True, timeout=100)
    assert found.stdout == "True\n", found.stderr
