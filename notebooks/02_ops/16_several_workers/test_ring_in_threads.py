"""A ring in threads: what it gives, and that a wrong ring ends with a sentence, never by waiting."""

import numpy as np
import pytest
from ctrlab.lessons.topics.several_workers.ring_in_threads import in_threads, require_sums

from ctrlab.lessons import interleaving
from ctrlab.lessons.check import CheckFailed


def test_threads_of_a_ring_reach_the_next_one():
    found, sent = in_threads(lambda me, ring: (ring.send(np.full(me, me)), ring.receive().tolist())[1], 3)
    assert found == [[2, 2], [], [1]] and sent == [0, 8, 16]


def test_what_is_received_is_the_receivers_own():
    def work(me, ring):
        mine = np.ones(2, np.float32)
        ring.send(mine)
        came = ring.receive()
        came += me
        return mine

    assert all((mine == 1).all() for mine in in_threads(work, 3)[0])


def test_what_one_raises_ends_all():
    def work(me, ring):
        if me == 1:
            raise ValueError("operands could not be broadcast together")
        return ring.receive()

    with pytest.raises(ValueError, match=r"^operands could not be broadcast together$"):
        in_threads(work, 3)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_those_that_all_wait_are_named(workers):
    names = ", ".join(f"worker {me}" for me in range(workers))
    with pytest.raises(CheckFailed, match=rf"here {workers} workers(.*\n)*.*for ever(.*\n)*.*received {names} wait") as refused:
        in_threads(lambda me, ring: ring.receive(), workers)
    assert refused.value.next_step.startswith("send first")


def test_one_that_waits_for_who_has_ended_is_named():
    with pytest.raises(CheckFailed, match=r"received worker 0 wait"):
        in_threads(lambda me, ring: ring.receive() if me == 0 else None, 2)


def test_one_that_goes_on_and_on_is_named(monkeypatch):
    def sends(me, ring):
        while True:
            ring.send(np.zeros(1))

    def turns(me, ring):
        while True:
            pass

    monkeypatch.setattr(interleaving, "PATIENCE", 0.3)
    for work in (sends, turns):
        with pytest.raises(CheckFailed, match=r"worker 0 goes on and on.*; here 2 workers\.\n.*comes to an end"):
            in_threads(work, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda right: [right, right * 0],
        lambda right: [right, right / 2],
        lambda right: [right, right[:-1]],
        lambda right: [right, right.astype(np.float64)],
    ],
    ids=["zeros", "mean", "a chunk less", "float64"],
)
def test_a_wrong_sum_is_told_with_its_worker(wrong):
    gradients = np.arange(10, dtype=np.float32).reshape(2, 5)
    right = gradients.sum(0)
    require_sums([right, right], gradients)
    with pytest.raises(CheckFailed, match=r"here worker 1 of 2 after the all-reduce(.*\n)*.*run check 1 again"):
        require_sums(wrong(right), gradients)
