"""The simulated machine against queues whose answer is known."""

import math

import numpy as np
import pytest
from ctrlab.lessons.topics.share_cores.curve import Load, ServiceCurve
from ctrlab.lessons.topics.share_cores.simulation import Pool, arrivals_of, simulate

from ctrlab.errors import CtrlabError

EXPONENTIAL = tuple(-np.log1p(-(np.arange(2_000) + 0.5) / 2_000))
SECOND = ServiceCurve(1.0, 0.0)


def test_a_queue_of_exponential_times():
    """M/M/1 at 70 %: the whole time is exponential with mean s / (1 - c)."""
    one = Load(ServiceCurve(1e-3, 0.0, spread=EXPONENTIAL), 700.0, (1,), 1.0)
    took = simulate([Pool(1, ("m",))], {"m": one}, seconds=200.0, seed=3)["m"]
    assert took.mean() == pytest.approx(1e-3 / 0.3, rel=0.05)
    assert np.percentile(took, 99) == pytest.approx(1e-3 * math.log(100) / 0.3, rel=0.08)


def test_a_queue_of_equal_times():
    """M/D/1, Pollaczek and Khinchine: the mean wait is c s / (2 (1 - c))."""
    one = Load(ServiceCurve(1e-3, 0.0), 800.0, (1,), 1.0)
    took = simulate([Pool(1, ("m",))], {"m": one}, seconds=100.0, seed=4)["m"]
    assert took.mean() == pytest.approx(1e-3 + 0.8 * 1e-3 / 0.4, rel=0.05)


def test_a_request_alone_takes_what_its_curve_says():
    curve = ServiceCurve(2e-3, 1e-4)
    took = simulate([Pool(4, ("m",))], {"m": Load(curve, 1e-2, (10,), 1.0)}, seconds=1e5)["m"]
    assert took.min() == pytest.approx(3e-3) and np.median(took) == pytest.approx(3e-3)


def test_a_core_of_another_model_is_cold():
    """On one core that two models share equally, half of the requests follow one of the other model."""
    curve = ServiceCurve(1e-3, 0.0, cold=5e-4)
    loads = {name: Load(curve, 1.0, (1,), 1.0) for name in "ab"}
    took = np.concatenate(list(simulate([Pool(1, ("a", "b"))], loads, seconds=5_000.0).values()))
    assert np.mean(took > 1.4e-3) == pytest.approx(0.5, abs=0.03)
    apart = simulate([Pool(1, ("a",)), Pool(1, ("b",))], loads, seconds=5_000.0)
    assert np.median(apart["a"]) == pytest.approx(1e-3) and np.mean(apart["a"] > 1.4e-3) < 0.01  # some wait


def test_a_warm_core_is_preferred():
    curve = ServiceCurve(1e-3, 0.0, cold=5e-4)
    loads = {name: Load(curve, 1.0, (1,), 1.0) for name in "ab"}
    took = np.concatenate(list(simulate([Pool(2, ("a", "b"))], loads, seconds=5_000.0).values()))
    assert np.mean(took > 1.4e-3) < 0.01


def test_a_core_that_rested_is_slower():
    """One core, hardly busy: only requests that came meanwhile find it awake."""
    curve = ServiceCurve(1e-3, 0.0, idle=5e-4)
    took = simulate([Pool(1, ("m",))], {"m": Load(curve, 100.0, (1,), 1.0)}, seconds=500.0)["m"]
    assert np.mean(np.isclose(took, 1.5e-3)) == pytest.approx(1 - 100 * took.mean(), abs=0.05)
    busy = simulate([Pool(1, ("m",))], {"m": Load(curve, 999.0, (1,), 1.0)}, seconds=50.0)["m"]
    assert np.mean(np.isclose(busy, 1.5e-3)) < 0.1


def test_crowding_slows_a_full_machine():
    curve = ServiceCurve(1e-3, 0.0, crowding=0.4)
    load = {"m": Load(curve, 1_200.0, (1,), 1.0)}
    full = simulate([Pool(2, ("m",))], load, seconds=20.0)["m"]
    alone = simulate([Pool(2, ("m",))], load, seconds=20.0, cores=100)["m"]
    assert full.mean() > 1.2 * alone.mean()
    assert full.min() == pytest.approx(1e-3)


def test_arrivals_are_a_poisson_process():
    came = list(arrivals_of(Load(SECOND, 50.0, (1, 7), 1.0), 400.0, np.random.default_rng(0)))
    times, rows = np.array(came).T
    assert len(times) == pytest.approx(20_000, rel=0.03) and np.all(np.diff(times) >= 0) and times.max() < 400
    counts = np.histogram(times, 400, (0, 400))[0]
    assert counts.var() == pytest.approx(counts.mean(), rel=0.15)
    assert np.mean(rows == 7) == pytest.approx(0.5, abs=0.02)


def test_every_request_is_answered_also_those_that_wait_at_the_end():
    overloaded = Load(ServiceCurve(1e-2, 0.0), 1_000.0, (1,), 1.0)
    took = simulate([Pool(1, ("m",))], {"m": overloaded}, seconds=1.0, seed=2)["m"]
    assert len(took) == pytest.approx(900, rel=0.1)
    assert took.max() > 8.0


@pytest.mark.parametrize("pools", [[], [Pool(1, ("m",)), Pool(1, ("m",))], [Pool(0, ("m",))], [Pool(1, ("m", "other"))]])
def test_pools_that_can_not_be(pools):
    with pytest.raises(CtrlabError, match="Each model is served by one pool of at least one core"):
        simulate(pools, {"m": Load(SECOND, 1.0, (1,), 1.0)}, seconds=1.0)


@pytest.mark.parametrize("odd", [{"rows": ()}, {"rows": (0,)}, {"per_second": -1.0}, {"within": 0.0}])
def test_loads_that_can_not_be(odd):
    with pytest.raises(CtrlabError, match="A load has requests of at least 1 row"):
        Load(**({"curve": SECOND, "per_second": 1.0, "rows": (1,), "within": 1.0} | odd))
