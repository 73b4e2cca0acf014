"""Queues on a simulated clock, against waits that are known: of one queue, of batches, of refusals, and of several queues."""

import heapq

from hypothesis import given
from hypothesis import strategies as st

from ctrlab.load.queueing import Call, Queue, run

STREAMS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 30)), max_size=40)
"""Gaps and lengths."""


def arrivals_of(gaps, queue):
    at = 0
    for gap, length in gaps:
        at += gap
        yield at, queue, (at, length)


def latencies(queue_and_calls):
    return [call.ends - came for _, call in queue_and_calls for came, _ in call.batch]


@given(STREAMS, st.integers(1, 4))
def test_first_come_is_first_served_by_who_is_free_first(gaps, workers):
    """Kiefer and Wolfowitz: a request begins when it has come and the first worker is free."""
    free, expected = [0] * workers, []
    for at, _, (came, length) in arrivals_of(gaps, None):
        begins = max(at, heapq.heappop(free))
        heapq.heappush(free, begins + length)
        expected.append(begins + length - came)
    queue = Queue(workers, lambda batch, now: batch[0][1])
    assert sorted(latencies(run(arrivals_of(gaps, queue)))) == sorted(expected)
    assert not queue.waiting and queue.refused == 0


@given(STREAMS, STREAMS)
def test_queues_that_share_a_clock_do_not_disturb_each_other(one, other):
    alone = []
    for gaps in (one, other):
        queue = Queue(1, lambda batch, now: batch[0][1])
        alone.append(latencies(run(arrivals_of(gaps, queue))))
    queues = [Queue(1, lambda batch, now: batch[0][1]) for _ in range(2)]
    streams = [arrivals_of(gaps, queue) for gaps, queue in zip((one, other), queues)]
    both = list(run(heapq.merge(*streams, key=lambda each: each[0])))
    assert [latencies(each for each in both if each[0] is queue) for queue in queues] == alone
    assert [call.ends for _, call in both] == sorted(call.ends for _, call in both)


def test_those_that_wait_go_together_when_enough_are_there_or_the_oldest_has_waited():
    def leave(waiting, now):
        return len(waiting) if len(waiting) >= 3 or now >= waiting[0][0] + 10 else 0

    queue = Queue(1, lambda batch, now: 5, leave, looks=lambda waiting: waiting[0][0] + 10)
    calls = [call for _, call in run((at, queue, (at, 0)) for at in (0, 1, 2, 20, 21, 50))]
    assert [(len(call.batch), call.begun, call.ends) for call in calls] == [(3, 2, 7), (2, 30, 35), (1, 60, 65)]


@given(st.floats(0, 1e6), st.floats(1e-6, 1e3))
def test_the_oldest_goes_in_time_though_sums_of_floats_are_rounded(came, wait):
    def leave(waiting, now):
        return len(waiting) if now - waiting[0] >= wait else 0

    queue = Queue(1, lambda batch, now: 1.0, leave, looks=lambda waiting: waiting[0] + wait)
    [(_, call)] = run([(came, queue, came)])
    assert call.batch == [came] and call.begun - came >= wait


def test_who_never_lets_go_ends_the_run_with_requests_that_wait():
    queue = Queue(1, lambda batch, now: 1, lambda waiting, now: 0, looks=lambda waiting: waiting[0] + 5)
    assert list(run([(0, queue, 0), (1_000_000, queue, 1_000_000)])) == [] and len(queue.waiting) == 2


def test_a_request_that_is_not_admitted_is_counted_and_takes_no_time():
    queue = Queue(1, lambda batch, now: 10, admit=lambda request, queue: len(queue.waiting) < 1)
    calls = [call for _, call in run((at, queue, (at, 0)) for at in (0, 1, 2, 3))]
    assert [call.ends for call in calls] == [10, 20] and queue.refused == 2


def test_what_is_done_at_an_end_comes_before_the_next_call_begins():
    served = []
    queue = Queue(1, lambda batch, now: 5 + len(served))
    for _, call in run((0, queue, number) for number in range(3)):
        served.append(call)
    assert served == [Call([0], 0, 5), Call([1], 5, 11), Call([2], 11, 18)]


def test_nothing_comes_of_nothing():
    assert list(run([])) == []
