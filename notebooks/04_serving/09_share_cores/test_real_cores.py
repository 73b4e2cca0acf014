"""Pools on real cores. What is asked here only sleeps, so that no speed of this machine matters."""

import os
import threading
import time

import numpy as np
import pytest
from ctrlab.lessons.topics.share_cores.curve import Load, ServiceCurve
from ctrlab.lessons.topics.share_cores.real_cores import measure_curve, run
from ctrlab.lessons.topics.share_cores.simulation import Pool

from ctrlab.errors import CtrlabError

CURVE = ServiceCurve(1e-3, 0.0)


def test_each_request_is_answered_on_a_cpu_of_its_pool():
    cpus, ran = sorted(os.sched_getaffinity(0)), {"a": set(), "b": set()}
    if len(cpus) < 2:
        pytest.skip("two pools need two CPUs")

    def ask(model):
        return lambda rows: (time.sleep(1e-3), ran[model].update(os.sched_getaffinity(0)))

    loads = {model: Load(CURVE, 100.0, (1, 5), 1.0) for model in ran}
    took = run([Pool(1, ("a",)), Pool(1, ("b",))], loads, {model: ask(model) for model in ran}, seconds=0.5)
    assert ran == {"a": {cpus[0]}, "b": {cpus[1]}}
    assert all(len(found) > 20 and found.min() >= 1e-3 for found in took.values())
    assert os.sched_getaffinity(0) == {*cpus}


def test_a_wait_counts_from_when_the_request_was_due():
    """One call stalls; what is due meanwhile waits for it, and that shows."""
    asked = []

    def ask(rows):
        asked.append(rows)
        time.sleep(0.3 if len(asked) == 40 else 1e-4)

    took = run([Pool(1, ("m",))], {"m": Load(CURVE, 200.0, (1,), 1.0)}, {"m": ask}, seconds=1.0)["m"]
    assert took.max() >= 0.3
    assert (took > 0.05).sum() > 20


def test_an_error_of_the_model_is_raised():
    def ask(rows):
        raise CtrlabError("no answer")

    with pytest.raises(CtrlabError, match="no answer"):
        run([Pool(1, ("m",))], {"m": Load(CURVE, 50.0, (1,), 1.0)}, {"m": ask}, seconds=0.2)


def test_more_cores_than_there_are():
    with pytest.raises(CtrlabError, match="received 10000 cores for"):
        run([Pool(10_000, ("m",))], {"m": Load(CURVE, 1.0, (1,), 1.0)}, {"m": print}, seconds=0.1)


def test_a_curve_is_measured():
    before, others = os.sched_getaffinity(0), []

    def ask(rows):
        time.sleep(3e-3 + 3e-4 * rows)

    def other(rows):
        others.append(threading.get_ident())
        time.sleep(1e-4)

    curve = measure_curve(ask, (1, 10, 50), other=other, repetitions=5)
    assert curve.idle < 1e-3  # a sleep is no slower after a rest
    assert 2.5e-3 < curve.mean(0) < 9e-3  # a stall in the longest tilts the line below the 3 ms
    assert 2.4e-4 < curve.per_row < 9e-4  # a stall in the shortest sleep makes the line flatter
    assert threading.get_ident() in others  # before a cold call
    assert len(before) == 1 or len({*others}) >= 2  # and on other CPUs
    assert os.sched_getaffinity(0) == before


def test_a_rest_is_measured():
    last = [0.0]

    def ask(rows):
        time.sleep(1e-3 if time.monotonic() - last[0] < 5e-4 else 3e-3)
        last[0] = time.monotonic()

    curve = measure_curve(ask, (1, 50), other=lambda rows: None, repetitions=5)
    assert 1e-3 < curve.idle < 3e-3


def test_times_of_one_size_are_no_curve():
    with pytest.raises(CtrlabError, match="at least two numbers of rows"):
        ServiceCurve.fit({1: [1e-3]})
    with pytest.raises(CtrlabError, match="times above 0"):
        ServiceCurve.fit({1: [1e-3], 2: [0.0]})


def test_a_fit_finds_the_line_back():
    curve = ServiceCurve.fit({n: [(1e-3 + 2e-5 * n) * s for s in (0.9, 1.0, 1.1)] for n in (1, 50, 200)})
    assert curve.fixed == pytest.approx(1e-3) and curve.per_row == pytest.approx(2e-5)
    assert curve.spread[0] == pytest.approx(0.9) and sum(curve.spread) / len(curve.spread) == pytest.approx(1.0)
    assert np.var(curve.spread) == pytest.approx(0.02 / 3)
