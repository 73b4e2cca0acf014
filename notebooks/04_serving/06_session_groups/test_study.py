"""What the lesson on session groups measures with: routed calls, CPU sets, latencies from when they were due."""

import itertools
import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from ctrlab.lessons.topics.session_groups import study
from ctrlab.lessons.topics.session_groups.study import Models

from ctrlab import profiles
from ctrlab.lessons import recorder

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two members need two CPUs")


class Turns:
    """A router that takes members in turn, and keeps who was asked."""

    def __init__(self, members, lock):
        self.members, self.calls = members, 0

    def run(self, call):
        self.calls += 1
        return call(self.calls % self.members)


@pytest.fixture(scope="module")
def models():
    found = Models(profiles.PROFILES["tiny"])
    yield found
    found.close()


def test_cores_are_this_machine_s_cpus():
    cores = study.cores()
    assert len(cores) > 1 and sorted(cpu for core in cores for cpu in core) == sorted(os.sched_getaffinity(0))


def test_one_core_with_two_threads_is_taken_as_two(monkeypatch):
    monkeypatch.setattr(study, "nodes", lambda: [[[0, 1]]])
    assert study.cores() == [[0], [1]]
    monkeypatch.setattr(study, "nodes", lambda: [[[0, 2], [1, 3]], [[4]]])
    assert study.cores() == [[0, 2], [1, 3], [4]]


def test_layouts_answer_the_same(models):
    sets, made = study.cores()[:2], []

    def makes(members, lock):
        made.append(Turns(members, lock))
        return made[0]

    layouts = {
        "pool": models.opened(intra_op_threads=0),
        "routed": models.routed(makes, sets),
        "by model": models.opened(**study.members_of(sets, "by_model", "of a test")),
    }
    answers = {name: {model: ask().data for model, ask in asks.items()} for name, asks in layouts.items()}
    for found in answers.values():
        assert found["light"] != found["heavy"]
        for model, data in found.items():
            np.testing.assert_allclose(
                np.frombuffer(data[-40:], "<f4"), np.frombuffer(answers["pool"][model][-40:], "<f4"), atol=1e-5
            )
    assert made[0].members == 2 and made[0].calls == 2


def test_rates_count_answers(models):
    found = models.per_second({"slow": lambda: time.sleep(0.02), "quick": lambda: time.sleep(0.005)})
    assert 2 < np.median(found["quick"]) / np.median(found["slow"]) < 8
    assert np.median(found["slow"]) < 1.1 * len(os.sched_getaffinity(0)) / 0.02


def test_one_caller_asks_alone(models):
    inside, most = [], []

    def ask():
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()

    models.per_second({"any": ask}, callers=1)
    assert max(most) == 1


def test_a_rate_is_divided_by_the_base_s_of_its_round():
    found = study.against({"base": [1.0, 2.0, 4.0], "twice": [2.0, 4.0, 8.0]}, "base")
    assert found.keys() == {"twice"} and found["twice"].median == found["twice"].low == found["twice"].high == 2


def test_all_layouts_are_asked_the_same_requests(models):
    """Also one that takes longer: with fewer requests its p99 would look better than it is."""
    calls = {"first": 0, "short": 0, "long": 0}

    def light(name, seconds):
        def ask():
            calls[name] += 1
            time.sleep(seconds)

        return {"light": ask, "heavy": None}

    models.p99({"first": light("first", 0.002)}, beside=False)
    models.p99({"short": light("short", 0.002), "long": light("long", 0.004)}, beside=False)
    assert calls["short"] == calls["long"] > 10


def test_latencies_count_from_when_they_were_due(models):
    """A stall in each round delays all that are due meanwhile; a closed loop would see one slow call."""
    calls = itertools.count()
    models.p99({"any": {"light": lambda: time.sleep(0.001), "heavy": None}}, beside=False)  # draws when requests are due
    each = len(models._due) + 1
    asks = {"light": lambda: time.sleep(0.3 if next(calls) % each == each // 3 else 0.001), "heavy": None}
    assert models.p99({"stalls": asks}, beside=False)["stalls"] > 150_000


def test_one_stall_in_one_round_does_not_decide(models):
    calls = itertools.count()
    asks = {"light": lambda: time.sleep(0.3 if next(calls) == 20 else 0.001), "heavy": None}
    assert models.p99({"stalls": asks}, beside=False)["stalls"] < 150_000


def test_the_heavy_model_is_asked_meanwhile_and_not_after(models):
    asked, inside, most, ends = [], [], [], threading.Event()

    def heavy():
        assert not ends.is_set()
        asked.append(threading.get_ident())
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()

    models.p99({"any": {"light": lambda: time.sleep(0.002), "heavy": heavy}}, beside=True)
    ends.set()
    time.sleep(0.05)
    assert threading.get_ident() not in asked and max(most) == 1


def test_a_chart_shows_all_rounds_of_a_layout_as_one_series(models, monkeypatch):
    monkeypatch.setattr(recorder, "DRAWN", 1)
    monkeypatch.setattr(recorder, "EACH", 1)
    points: dict[str, list[float]] = {"one": [], "other": []}
    chart = SimpleNamespace(add=lambda name, x, y: points[name].append(x))
    models.p99({name: {"light": lambda: time.sleep(0.001), "heavy": None} for name in points}, beside=False, chart=chart)
    for moments in points.values():
        assert len(moments) == models._rounds * len(models._due) and moments == sorted(moments)


def test_cpu_times_are_of_a_request(models):
    found = models.cpu([1, 2])
    assert found.keys() == {1, 2} and all(10 < micros < 1e6 for micros in found.values())
