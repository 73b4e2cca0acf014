"""Session groups: the policies, the same answers, and the CPUs that a caller has after."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from served import TOLERANCE, first, probabilities
from wire_requests import by_columns

from ctrlab.serving.processor import Processor, Refused

CPUS = sorted(os.sched_getaffinity(0))
pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="two members need two CPUs")
TWO = {"members": 2, "cpus": [str(CPUS[0]), str(CPUS[1])]}


def answered(processor):
    return [member["answered"] for member in processor.info()["members"]]


@pytest.mark.parametrize("threads", [1, 2])
def test_members_take_turns_answer_the_same_and_give_the_cpus_back(din, threads):
    out, model, features, right = din
    expected = probabilities(model, first(features, 3))
    with Processor(out, poll_seconds=0, intra_op_threads=threads, group=TWO) as processor:
        before = answered(processor)
        for _ in range(10):
            found = json.loads(processor.process(by_columns(right), "json").data)["outputs"]
            np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
            assert os.sched_getaffinity(0) == set(CPUS)
        assert [now - then for now, then in zip(answered(processor), before)] == [5, 5]
        assert [member["inside"] for member in processor.info()["members"]] == [0, 0]


def tasks():
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


def test_the_threads_of_a_member_have_its_cpus(din):
    """A pool's threads are bound when they begin. Other threads that TensorFlow starts meanwhile may run anywhere."""
    before = tasks()
    with Processor(din[0], poll_seconds=0, intra_op_threads=2, group=TWO):
        found = [os.sched_getaffinity(task) for task in tasks() - before]
    assert sorted(map(sorted, (cpus for cpus in found if len(cpus) == 1))) == [[CPUS[0]]] * 2 + [[CPUS[1]]] * 2


def test_a_model_stays_in_its_member(din):
    shared = TWO | {"name": "of models", "policy": "by_model"}
    with (
        Processor(din[0], name="light", poll_seconds=0, group=shared) as light,
        Processor(din[0], name="heavy", poll_seconds=0, group=shared) as heavy,
    ):
        before = answered(light)
        threads = [threading.Thread(target=lambda: heavy.process(by_columns(din[3]), "json")) for _ in range(7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        light.process(by_columns(din[3]), "json")
        assert [now - then for now, then in zip(answered(light), before)] == [1, 7]
        with pytest.raises(Refused, match="the same options"):
            Processor(din[0], group=shared | {"policy": "round_robin"})


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        ({"members": 1024}, "at most a member for each CPU"),
        ({"members": 2, "cpus": ["0"]}, "a set for each of its 2 members; received 1"),
        ({"cpus": [""]}, "are numbers and ranges"),
        ({"cpus": ["3-1"]}, "are numbers and ranges"),
        ({"cpus": ["1023"]}, "that the process may use"),
        ({"policy": "random"}, '"group" must be an object'),
    ],
)
def test_odd_groups_are_refused(din, group, sentence):
    with pytest.raises(Refused, match=sentence):
        Processor(din[0], poll_seconds=0, group=group)
