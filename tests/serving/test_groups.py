"""Session groups: the policies, the same answers, and the CPUs that a caller has after."""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
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


def test_the_fewest_requests_inside(din):
    """One request after the other finds all members idle, and takes the first; two at once are never in one."""
    with Processor(din[0], poll_seconds=0, group=TWO | {"policy": "least_in_flight"}) as processor:
        before, request = answered(processor), by_columns(din[3])
        for _ in range(5):
            processor.process(request, "json")
        assert [now - then for now, then in zip(answered(processor), before)] == [5, 0]
        most = [0, 0]
        ends = threading.Event()

        def ask():
            for _ in range(100):
                processor.process(request, "json")

        def watch():
            while not ends.is_set():
                for k, member in enumerate(processor.info()["members"]):
                    most[k] = max(most[k], member["inside"])

        watcher, askers = threading.Thread(target=watch), [threading.Thread(target=ask) for _ in range(2)]
        for thread in (watcher, *askers):
            thread.start()
        for thread in askers:
            thread.join()
        ends.set()
        watcher.join()
        assert max(most) <= 1
        assert sum(answered(processor)) == sum(before) + 205


def test_a_request_that_the_model_refuses_leaves_its_member(din):
    out, _, _, right = din
    odd = {name: values[:-1] if name == "history_categories/values" else values for name, values in right.items()}
    splits = odd["history_categories/row_splits"].numpy().copy()
    splits[-1] -= 1
    odd["history_categories/row_splits"] = tf.constant(splits)
    with Processor(out, poll_seconds=0, group=TWO) as processor:
        for _ in range(4):
            with pytest.raises(Refused):
                processor.process(by_columns(odd), "json")
            assert os.sched_getaffinity(0) == set(CPUS)
        assert [member["inside"] for member in processor.info()["members"]] == [0, 0]
        processor.process(by_columns(right), "json")


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        ({"members": 1024}, "at most a member for each CPU"),
        ({"members": 2, "cpus": ["0"]}, "a set for each of its 2 members; received 1"),
        ({"cpus": [""]}, "are numbers and ranges"),
        ({"cpus": ["3-1"]}, "are numbers and ranges"),
        ({"cpus": ["1023"]}, "that the process may use"),
        ({"policy": "random"}, '"policy" must be round_robin, by_model or least_in_flight; received "random"'),
        ({"members": 0}, '"members" must be a whole number in'),
        ({"cpus": [0]}, '"cpus" must be a list of sets'),
        ({"cpus": []}, '"cpus" must be a list of sets'),
        ({"name": ""}, '"name" must be text that is not empty'),
        ({"threads": 2}, "A group has name, members, policy and cpus; threads is unknown"),
        (7, '"group" must be an object'),
    ],
)
def test_odd_groups_are_refused(din, group, sentence):
    with pytest.raises(Refused, match=sentence):
        Processor(din[0], poll_seconds=0, group=group)
