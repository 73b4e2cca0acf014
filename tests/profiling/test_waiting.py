"""What waits is seen, however few calls met it, and figures are put together rightly. No speed is asserted."""

import json
import threading
import time

import numpy as np
import pytest

from ctrlab.profiling.timing import WARM_UPS
from ctrlab.profiling.waiting import AT_LEAST, PERIOD, Pair, Waits, Watch, behind, watch


def watch_of(seconds, control=0.0, work=1.0):
    return Watch(np.stack([np.arange(len(seconds)), seconds], 1), np.array([[0.0, 0.0], [1.0, control]]), work)


def test_who_would_have_come_during_a_long_call_waited_too():
    np.testing.assert_allclose(np.sort(behind([0.2, 1.0, 3.5, 2.0], period=1)), [0.2, 1.0, 1.0, 1.5, 2.0, 2.5, 3.5])
    assert behind([]).size == 0
    one_stall = watch_of([PERIOD / 2] * 999 + [100 * PERIOD])
    assert np.percentile(one_stall.calls[:, 1], 99) < PERIOD  # one call in a thousand, and a tenth of the time
    assert one_stall.percentile(99) > 80 * PERIOD


def test_ratios_are_taken_round_by_round_and_the_worst_round_is_what_lies_beyond_the_control():
    quiet = PERIOD / 8
    rounds = [
        {"evicts": Pair(watch_of([quiet] * 9), watch_of([times * quiet] * 9, control))}
        for times, control in ((2, 0.0), (7, quiet), (4, 5 * quiet))
    ]
    waits = Waits("lookups", rounds, quiet, {"evicts": (2, 0.05)}, {"rows": 9})
    assert waits.phases == ["evicts"] and waits.ratio("evicts").median == pytest.approx(4)
    assert waits.beyond_control("evicts") == pytest.approx(6 * quiet)  # of 2, 6 and -1
    assert rounds[2]["evicts"].beyond_control == pytest.approx(-quiet)
    told = json.loads(json.dumps(waits.to_json()))
    assert told["ratios"] == {"evicts": pytest.approx(4)} and told["rows"] == 9 and len(told["rounds"]) == 3
    assert told["rounds"][0]["evicts"]["busy"]["microseconds"]["calls"][1] == [1_000_000, 250]


def test_a_call_that_waits_for_the_work_is_seen_beside_a_control_that_does_not():
    lock, begun, through, held = threading.Lock(), [], [], []

    def call():
        begun.append(None)
        with lock:
            through.append(None)

    def work():
        with lock:
            while len(begun) == len(through):  # until a call has begun that finds the lock taken
                time.sleep(PERIOD)
            held.append(time.perf_counter())
            time.sleep(0.2)
            held.append(time.perf_counter())

    found = watch(call, work)
    assert found.longest >= held[1] - held[0] and found.work >= 0.2
    assert len(found.control) and (found.calls[:, 1] >= 0).all() and (found.control[:, 1] > -PERIOD).all()


def test_what_is_watched_ends_with_the_last_trace_of_the_work():
    made = []

    def until_more_are_made():
        last, before = time.perf_counter(), len(made)
        while len(made) < before + 3:
            time.sleep(PERIOD)
        return last

    found = watch(lambda: made.append(None), lambda: (time.sleep(AT_LEAST), until_more_are_made()), until_more_are_made)
    assert found.work >= AT_LEAST and 0 < len(found.calls) < len(made) - WARM_UPS


def test_short_work_is_watched_long_enough_to_meet_calls():
    start = time.perf_counter()
    found = watch(lambda: None, lambda: None)
    assert time.perf_counter() - start > AT_LEAST and len(found.calls)


def test_what_a_call_raises_is_raised():
    calls, failed = iter([None] * 10), threading.Event()

    def call():
        if next(calls, failed) is failed:
            failed.set()
            raise LookupError("no call is left")

    with pytest.raises(LookupError, match="no call is left"):
        watch(call, lambda: failed.wait(60))
