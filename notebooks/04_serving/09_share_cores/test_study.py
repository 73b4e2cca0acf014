"""The machine of the lesson on sharing cores: what it draws, its pools, and what a policy carries."""

import heapq
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from ctrlab.lessons.topics.share_cores import allocation, study
from ctrlab.lessons.topics.share_cores.curve import ServiceCurve
from ctrlab.lessons.topics.share_cores.experiment import Experiment
from ctrlab.lessons.topics.share_cores.simulation import Pool, simulate
from ctrlab.lessons.topics.share_cores.study import Machine

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
    return machine_of()


def machine_of(main=MAIN, variant=VARIANT, **options):
    loads = Experiment(variants=3, share=0.3, **options).loads(main, variant)
    return Machine({model: study.limited(load) for model, load in loads.items()}, 16, 5_000)


def test_a_load_is_a_share_of_the_machine_s_work(machine):
    drawn = machine.drawn(0.6)
    count = sum(len(due) for due, _ in drawn.values())
    seconds = max(due[-1] for due, _ in drawn.values()) / 1e6
    work = sum(sum(service) for _, service in drawn.values()) / 1e6
    assert count == pytest.approx(5_000, rel=0.1) and work / seconds / 16 == pytest.approx(0.6, rel=0.05)
    assert machine.at(0.6)["main"].work == pytest.approx(0.7 * 0.6 * 16)
    assert all(due.tolist() == sorted(due) for due, _ in drawn.values())


def test_the_busier_the_machine_the_more_its_cores_slow_each_other_down():
    crowded = machine_of(replace(MAIN, crowding=0.4), VARIANT)
    twice = machine_of(replace(MAIN, crowding=0.4), VARIANT, crowding=2.0)
    assert crowded.at(0.5)["main"].work == pytest.approx(1.2 * 0.7 * 0.5 * 16)
    assert twice.at(0.5)["main"].work == pytest.approx(1.4 * 0.7 * 0.5 * 16)
    assert crowded.at(0.5)["variant 1"].work == pytest.approx(0.1 * 0.5 * 16)
    quiet = machine_of().drawn(0.5)
    for model, by in {"main": 1.2, "variant 1": 1.0}.items():
        np.testing.assert_array_equal(crowded.drawn(0.5)[model][0], quiet[model][0])  # requests come as before
        np.testing.assert_allclose(crowded.drawn(0.5)[model][1], by * quiet[model][1], rtol=2e-3)
    assert crowded.limit("main") == machine_of().limit("main")


def test_a_model_without_requests_has_no_latency():
    loads = Experiment(variants=2).loads(MAIN, VARIANT)
    machine = Machine(loads | {"variant 2": loads["variant 2"].times(0.0)}, 8, 500)
    found = machine.simulated(latencies, [Pool(8, tuple(loads))], 0.5)
    assert not len(found["variant 2"]) and len(found["main"])
    assert set(machine.p99s(latencies, [Pool(8, tuple(loads))], 0.5)) == {"main", "variants"}


def test_a_slow_variant_is_the_last_one_alone(machine):
    fast, slow = machine.drawn(0.5), machine.drawn(0.5, slow=4.0)
    for model in fast:
        factor = np.divide(slow[model][1], fast[model][1])
        np.testing.assert_allclose(factor, 4.0 if model == "variant 3" else 1.0, rtol=1e-3)


def test_the_limit_is_what_slow_requests_take_alone(machine):
    slowest = 1e6 * MAIN.mean(200) * 1.2
    assert machine.limit("main") == pytest.approx(study.PATIENCE * slowest, rel=0.02)
    assert machine.limit("variant 1") == pytest.approx(study.PATIENCE * 2_000)


def test_a_request_takes_longer_beside_busy_cores():
    measured = SimpleNamespace(main=replace(MAIN, crowding=0.4), variant=VARIANT)
    took = study.Measured.took(measured, 100, 0.5)
    assert took == pytest.approx({"main": 2_400, "variant": 2_000, "main, p99": 1.196 * 2_400, "variant, p99": 2_000})
    assert study.Measured.took(measured, 100, 0)["main"] == pytest.approx(2_000)


def test_the_slowest_times_are_left_out():
    """Nineteen times of 1 ms and one of 21 ms have a mean of 2 ms; what is left are 1 ms each."""
    curve = ServiceCurve(2e-3, 2e-5, crowding=0.3, spread=(0.5,) * 19 + (10.5,))
    left = study.undisturbed(curve)
    assert left.spread == (1.0,) * 19 and left.crowding == 0.3
    assert (left.fixed, left.per_row) == (pytest.approx(1e-3), pytest.approx(1e-5))
    assert study.undisturbed(ServiceCurve(1e-3, 0.0)) == ServiceCurve(1e-3, 0.0)


def test_pools_do_not_see_each_other(machine):
    """A model alone in its pool takes what its own queue says."""
    pools = [Pool(12, ("main",)), Pool(4, ("variant 1", "variant 2", "variant 3"))]
    found = machine.simulated(latencies, pools, 0.7)
    due, service = machine.drawn(0.7)["main"]
    np.testing.assert_array_equal(found["main"], np.array(latencies(due, service, 12))[study.settled(due)])
    assert set(found) == set(machine.loads)


def test_a_shared_queue_is_first_come_first_served(machine):
    """Each model gets the latencies of its own requests, whatever pools come in which order."""
    pool = Pool(16, ("variant 2", "main", "variant 1", "variant 3"))
    found, drawn = machine.simulated(latencies, [pool], 0.95), machine.drawn(0.95)
    merged = sorted(
        (at, pool.models.index(model), number, work)
        for model, (due, service) in drawn.items()
        for number, (at, work) in enumerate(zip(due, service))
    )
    took = latencies([at for at, *_ in merged], [work for *_, work in merged], 16)
    kept = study.settled(np.array([at for at, *_ in merged]))
    of_model = {model: [] for model in pool.models}
    for (_, place, _, _), each, counts in zip(merged, took, kept):
        of_model[pool.models[place]] += [each] * int(counts)
    assert of_model == {model: each.tolist() for model, each in found.items()} and not all(kept)


@pytest.mark.parametrize("policy", ["split", "shared"])
def test_the_package_s_simulation_agrees(policy):
    """Without cold caches both are the same queue; crowding is an average here, and from moment to moment there."""
    machine = machine_of(replace(MAIN, crowding=0.2), replace(VARIANT, crowding=0.1))
    pools, requests = machine.pools(policy, 0.7), 40_000
    mine = replace(machine, requests=requests).simulated(latencies, pools, 0.7)
    loads = {model: load.times(0.7 * 16) for model, load in machine.loads.items()}
    seconds = requests / sum(load.per_second for load in loads.values())
    theirs = simulate(pools, loads, seconds=seconds, seed=5, cores=16)
    for model in loads:
        assert mine[model].mean() / 1e6 == pytest.approx(theirs[model].mean(), rel=0.1), model


def test_p99s_are_over_the_limit_and_of_the_worst_variant(machine):
    pools = [Pool(12, ("main", "variant 1", "variant 2")), Pool(1, ("variant 3",))]
    over = machine.p99s(latencies, pools, 0.9)
    took = machine.simulated(latencies, pools, 0.9)
    assert over["main"] == pytest.approx(np.percentile(took["main"], 99) / machine.limit("main"))
    worst = np.percentile(took["variant 3"], 99) / machine.limit("variant 3")
    assert over["variants"] == pytest.approx(worst) and worst > 1


def test_the_most_is_the_last_load_that_holds(machine, monkeypatch):
    monkeypatch.setattr(Machine, "p99s", lambda self, of, pools, load: {"main": 1.0 if load <= 0.7 else 1.1})
    assert machine.most(latencies, lambda load: []) == 0.7
    assert machine.most(latencies, lambda load: None) == 0
    assert machine.most(latencies, lambda load: [] if load < 0.3 else None) == 0.29


def test_the_rule_gets_what_the_main_model_needs(machine):
    asked = []

    def rule(p99, limit, busy, cores):
        asked.append((p99(12), limit, busy, cores))
        return 12

    pools = machine.dedicated(rule, latencies, 0.8)
    due, service = machine.drawn(0.8)["main"]
    p99 = float(np.percentile(np.array(latencies(due, service, 12))[study.settled(due)], 99))
    assert asked == [(p99, machine.limit("main"), pytest.approx(0.3 * 0.8 * 16), 16)]
    assert pools == [Pool(12, ("main",)), Pool(4, ("variant 1", "variant 2", "variant 3"))]
    assert machine.dedicated(lambda *_: None, latencies, 0.8) is None


def test_policies_are_the_package_s_and_the_learner_s(machine):
    policies = machine.policies(latencies, lambda p99, limit, busy, cores: 13)
    assert list(policies) == ["split", "shared", "dedicated", "yours"]
    assert policies["shared"](0.8) == [Pool(16, tuple(machine.loads))]
    assert policies["yours"](0.8)[0] == Pool(13, ("main",))
    within = replace(machine.at(0.8)["main"], within=machine.limit("main") / 1e6)
    assert policies["dedicated"](0.8)[0].cores == allocation.cores_needed(within, 15)


def test_the_first_tenth_of_the_time_does_not_count():
    assert study.settled(np.array([0, 9, 10, 100])).tolist() == [False, False, True, True]
    assert study.settled(np.array([], int)).tolist() == []


def test_waits_are_those_of_textbooks():
    assert study.waits(1, 0.8) == pytest.approx(4)
    assert study.waits(2, 0.5) == pytest.approx(1 / 3)  # Erlang's C is 1/3 there


@pytest.mark.parametrize("cores", [1, 8])
def test_random_calls_have_their_utilization(cores):
    due, service = study.random_calls(cores, 0.5, 50_000)
    assert sum(service) / due[-1] / cores == pytest.approx(0.5, rel=0.02)
