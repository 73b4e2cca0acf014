"""Threads that run one at a time, in every order."""

import itertools

import pytest

from ctrlab.lessons.interleaving import Stuck, Threads, every_order


def orders(bodies):
    """What each order of threads that note their name at each point comes to."""
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
