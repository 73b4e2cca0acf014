"""Waits are seen even if few calls met them, and figures are combined correctly. The tests move the clock themselves."""

import json
import threading
import time

import numpy as np
import pytest

from ctrlab.profiling import waiting
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


class Clock:
    """A time that goes on only when somebody says so."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(waiting, "now", found := Clock())
    return found


def test_a_call_that_waits_for_the_work_is_seen(clock):
    lock, begun, through = threading.Lock(), [], []

    def call():
        begun.append(None)
        with lock:
            through.append(None)

    def work():
        with lock:
            while len(begun) == len(through):  # until a call has begun that finds the lock taken
                time.sleep(PERIOD)
            clock.seconds += 5

    found = watch(call, work, clock)
    assert sorted(found.calls[:, 1])[-2:] in ([0, 5], [5]) and found.longest == found.work == 5


def test_what_is_watched_ends_with_the_last_trace_of_the_work(clock):
    made = []

    def until_more_are_made():
        before = len(made)
        while len(made) < before + 3:
            time.sleep(PERIOD)

    def work():
        clock.seconds = AT_LEAST
        until_more_are_made()

    def ended():
        clock.seconds += 1
        until_more_are_made()
        return AT_LEAST

    found = watch(lambda: made.append(clock()), work, ended)
    watched = [at for at in made[WARM_UPS:] if at <= AT_LEAST]
    assert found.work == AT_LEAST and made[-1] > AT_LEAST and 3 <= len(found.calls) <= len(watched)


def test_short_work_is_watched_long_enough_to_meet_calls(clock, monkeypatch):
    slept, sleep = [], time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (slept.append(seconds), sleep(seconds)))
    found = watch(lambda: None, lambda: None, clock)
    assert AT_LEAST in slept and len(found.calls)


def test_what_a_call_raises_is_raised():
    calls, failed = iter([None] * 10), threading.Event()

    def call():
        if next(calls, failed) is failed:
            failed.set()
            raise LookupError("no call is left")

    with pytest.raises(LookupError, match="no call is left"):
        watch(call, lambda: failed.wait(60))
