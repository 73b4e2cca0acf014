"""Policies, and the queueing formulas behind them, against what is known of M/M/n queues and against the simulation."""

import math

import numpy as np
import pytest
from ctrlab.lessons.topics.share_cores.allocation import POLICIES, cores_needed, dedicated, most_load, predicted, split
from ctrlab.lessons.topics.share_cores.curve import Load, ServiceCurve
from ctrlab.lessons.topics.share_cores.simulation import Pool, simulate
from hypothesis import given
from hypothesis import strategies as st

from ctrlab.errors import CtrlabError, UnknownName
from ctrlab.load.erlang import chance_to_wait

EXPONENTIAL = tuple(-np.log1p(-(np.arange(2_000) + 0.5) / 2_000))
HEAVY = ServiceCurve(2e-3, 4e-5)
LIGHT = ServiceCurve(2e-4, 4e-6)


def load(work: float, curve: ServiceCurve = LIGHT, rows=(50,), within: float = 0.05) -> Load:
    return Load(curve, work / curve.mean(np.mean(rows)), rows, within)


@pytest.mark.parametrize(
    ("cores", "busy", "expected"), [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (10, 8.0, 0.409), (3, 3.0, 1.0), (4, 0.0, 0.0)]
)
def test_erlangs_formula(cores, busy, expected):
    """One core waits with its utilization; two at half load with 1/3; ten at 8 with .409 (Erlang's tables)."""
    assert chance_to_wait(cores, busy) == pytest.approx(expected, abs=5e-4)


@given(st.integers(1, 2_000), st.floats(0.0, 1.0, exclude_max=True))
def test_a_chance_is_one_for_any_number_of_cores(cores, share):
    chance = chance_to_wait(cores, share * cores)
    assert 0 <= chance <= 1
    assert chance_to_wait(cores + 1, share * cores) <= chance + 1e-12


def test_the_prediction_of_exponential_times():
    """M/M/1: the 99th percentile of the whole time is s log(100) / (1 - c)."""
    one = Load(ServiceCurve(1e-3, 0.0, spread=EXPONENTIAL), 700.0, (1,), 1.0)
    assert predicted(one, 1) == pytest.approx(1e-3 * math.log(100) / 0.3, rel=5e-3)


def test_without_a_wait_the_prediction_is_the_service_time():
    assert predicted(load(1.0), 128) == pytest.approx(LIGHT.mean(50))
    assert predicted(load(0.0), 1) == pytest.approx(LIGHT.mean(50))


@pytest.mark.parametrize("cores", [1, 2, 8, 64])
@pytest.mark.parametrize("busy", [0.5, 0.8])
@pytest.mark.parametrize("spread", [(1.0,), (0.8, 0.9, 1.0, 1.3)])
def test_the_prediction_beside_the_simulation(cores, busy, spread):
    asked = load(busy * cores, ServiceCurve(2e-4, 4e-6, spread=spread), rows=(10, 50, 200))
    took = simulate([Pool(cores, ("m",))], {"m": asked}, seconds=20_000 / asked.per_second, seed=1)["m"]
    assert predicted(asked, cores) == pytest.approx(np.percentile(took, 99), rel=0.2)


@pytest.mark.parametrize("patience", [2.5, 3.0, 5.0])
@pytest.mark.parametrize("crowding", [0.0, 0.5])
@pytest.mark.parametrize("idle", [0.0, 1e-4])
def test_what_the_first_model_needs_is_enough(patience, crowding, idle):
    """It is enough with a limit near the service time, if the slow requests wait too, and beside cores that slow it down."""
    curve = ServiceCurve(2e-4, 4e-6, crowding=crowding, idle=idle)
    loads = {"main": load(16.0, curve, (10, 50, 90), patience * curve.mean(50)), "a": load(4.0, curve)}
    pools = dedicated(loads, 48)
    took = simulate(pools, loads, seconds=50_000 / loads["main"].per_second, seed=2, cores=48)["main"]
    assert pools[0].cores < 32
    assert np.percentile(took, 99) <= 1.05 * loads["main"].within


def test_a_slower_curve_takes_so_many_times_as_long():
    curve = ServiceCurve(2e-4, 4e-6, cold=1e-5, idle=2e-5, crowding=0.5)
    slow, beside = curve.slower(3.0), curve.beside(0.4)
    assert (slow.fixed, slow.per_row, slow.cold, slow.idle) == pytest.approx((6e-4, 1.2e-5, 3e-5, 6e-5))
    assert slow.crowding == 0.5
    assert beside.mean(50) == pytest.approx(1.2 * curve.mean(50)) and beside.idle == pytest.approx(2.4e-5)
    assert beside.crowding == 0


def test_cores_needed_are_the_fewest():
    asked = load(5.0, within=2e-3)
    found = cores_needed(asked, 100)
    assert predicted(asked, found) <= 2e-3 < predicted(asked, found - 1)
    with pytest.raises(CtrlabError, match="5 cores are too few"):
        cores_needed(asked, 5)


def test_too_slow_alone():
    with pytest.raises(CtrlabError, match="slower alone than 1 ms"):
        cores_needed(load(0.1, HEAVY, within=1e-3), 128)


@given(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=9), st.integers(9, 200))
def test_a_split_gives_out_every_core(works, cores):
    loads = {f"m{k}": load(work) for k, work in enumerate(works)}
    pools = split(loads, cores)
    assert sum(pool.cores for pool in pools) == cores and min(pool.cores for pool in pools) >= 1
    assert [pool.models for pool in pools] == [(model,) for model in loads]


def test_the_first_model_has_what_it_needs():
    loads = {"main": load(10.0, within=2e-3), "a": load(1.0, HEAVY), "b": load(1.0)}
    own, rest = dedicated(loads, 20)
    assert own == Pool(cores_needed(loads["main"], 19), ("main",))
    assert rest == Pool(20 - own.cores, ("a", "b"))
    assert dedicated({"main": loads["main"]}, 20) == [Pool(20, ("main",))]
    assert dedicated(loads, 2) == [Pool(1, ("main",)), Pool(1, ("a", "b"))]


def test_variants_that_share_take_more_than_variants_that_do_not():
    """Eight small variants on a core each leave most of it idle."""
    loads = {"main": load(8.0)} | {f"v{k}": load(0.5, HEAVY) for k in range(8)}
    most = {policy: most_load(policy, loads, 32, seconds=0.2) for policy in POLICIES}
    assert most["dedicated"] > 1.1 * most["split"] > 0


@pytest.mark.parametrize("policy", POLICIES)
def test_the_most_of_nothing_is_one_sentence(policy):
    idle = Load(ServiceCurve(1e-3, 0.0), 0.0, (1,), 1.0)
    for loads in ({}, {"main": idle, "variant": idle}):
        with pytest.raises(CtrlabError, match=f"received {len(loads)} loads without requests"):
            most_load(policy, loads, 8, seconds=1.0)


def test_what_can_not_be_shared_out():
    with pytest.raises(CtrlabError, match=r"at least 2 cores .* received 1 cores and 2 models"):
        split({"a": load(1.0), "b": load(1.0)}, 1)
    with pytest.raises(CtrlabError, match="at least one model"):
        split({}, 4)
    with pytest.raises(UnknownName, match="Did you mean 'shared'"):
        most_load("share", {"a": load(1.0)}, 4, seconds=1.0)
