"""The machine of the lesson on sharing cores: what it draws, its pools, and what a policy carries."""

import heapq

import numpy as np
import pytest

from ctrlab.fleet.curve import ServiceCurve
from ctrlab.fleet.experiments import Experiment
from ctrlab.fleet.simulation import Pool
from ctrlab.lessons import share_cores_study as study
from ctrlab.lessons.share_cores_study import Machine

MAIN, VARIANT = ServiceCurve(1e-3, 1e-5, spread=(0.8, 1.0, 1.2)), ServiceCurve(2e-3, 0.0)


def latencies(due, service, cores):
    free, took = [0] * cores, []
    for at, work in zip(due, service):
        ends = max(at, free[0]) + work
        heapq.heapreplace(free, ends)
        took.append(ends - at)
    return took


@pytest.fixture
def machine():
    return Machine(Experiment(variants=3, share=0.3).loads(MAIN, VARIANT), 16, 5_000)


def test_a_load_is_a_share_of_the_machine_s_work(machine):
    drawn = machine.drawn(0.6)
    count = sum(len(due) for due, _ in drawn.values())
    seconds = max(due[-1] for due, _ in drawn.values()) / 1e6
    work = sum(sum(service) for _, service in drawn.values()) / 1e6
    assert count == pytest.approx(5_000, rel=0.1) and work / seconds / 16 == pytest.approx(0.6, rel=0.05)
    assert machine.busy(0.6)["main"] == pytest.approx(0.7 * 0.6 * 16)
    assert all(due == sorted(due) for due, _ in drawn.values())


def test_a_slow_variant_is_the_last_one_alone(machine):
    fast, slow = machine.drawn(0.5), machine.drawn(0.5, slow=4.0)
    for model in fast:
        factor = np.divide(slow[model][1], fast[model][1])
        np.testing.assert_allclose(factor, 4.0 if model == "variant 3" else 1.0, rtol=1e-3)


def test_the_limit_is_what_slow_requests_take_alone(machine):
    slowest = 1e6 * MAIN.mean(200) * 1.2
    assert machine.limit("main") == pytest.approx(study.PATIENCE * slowest, rel=0.02)
    assert machine.limit("variant 1") == pytest.approx(study.PATIENCE * 2_000)


def test_pools_do_not_see_each_other(machine):
    """A model alone in its pool takes what its own queue says."""
    pools = [Pool(12, ("main",)), Pool(4, ("variant 1", "variant 2", "variant 3"))]
    found = machine.simulated(latencies, pools, 0.7)
    due, service = zip(*sorted(zip(*machine.drawn(0.7)["main"])))
    np.testing.assert_array_equal(found["main"], latencies(due, service, 12))
    assert set(found) == set(machine.loads)


def test_p99s_are_over_the_limit_and_of_the_worst_variant(machine):
    pools = [Pool(12, ("main", "variant 1", "variant 2")), Pool(1, ("variant 3",))]
    over = machine.p99s(latencies, pools, 0.9)
    took = machine.simulated(latencies, pools, 0.9)
    assert over["main"] == pytest.approx(np.percentile(took["main"], 99) / machine.limit("main"))
    worst = np.percentile(took["variant 3"], 99) / machine.limit("variant 3")
    assert over["variants"] == pytest.approx(worst) and worst > 1


def test_the_most_is_the_last_load_that_holds(machine, monkeypatch):
    monkeypatch.setattr(Machine, "p99s", lambda self, of, pools, load: {"main": 1.0 if load <= 0.7 else 1.1})
    assert machine.most(latencies, lambda load: []) == 22 / 32  # 23 / 32 is above 0.7
    assert machine.most(latencies, lambda load: None) == 0
    assert machine.most(latencies, lambda load: [] if load < 0.3 else None) == 9 / 32


def test_the_rule_gets_what_the_main_model_needs(machine):
    asked = []

    def rule(p99, limit, busy, cores):
        asked.append((p99(12), limit, busy, cores))
        return 12

    pools = machine.dedicated(rule, latencies, 0.8)
    due, service = machine.drawn(0.8)["main"]
    p99 = float(np.percentile(latencies(due, service, 12), 99))
    assert asked == [(p99, machine.limit("main"), pytest.approx(0.3 * 0.8 * 16), 16)]
    assert pools == [Pool(12, ("main",)), Pool(4, ("variant 1", "variant 2", "variant 3"))]
    assert machine.dedicated(lambda *_: None, latencies, 0.8) is None


def test_waits_are_those_of_textbooks():
    assert study.waits(1, 0.8) == pytest.approx(4)
    assert study.waits(2, 0.5) == pytest.approx(1 / 3)  # Erlang's C is 1/3 there


@pytest.mark.parametrize("cores", [1, 8])
def test_random_calls_have_their_utilization(cores):
    due, service = study.random_calls(cores, 0.5, 50_000)
    assert sum(service) / due[-1] / cores == pytest.approx(0.5, rel=0.02)
