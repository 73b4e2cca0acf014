"""What the lesson on updates stands on: clients of a processor, an update's file, and the model that tells two moments apart."""

import threading

import numpy as np
import pytest
from ctrlab.lessons.topics.updates import clients as serving_clients
from ctrlab.lessons.topics.updates import two_moments
from ctrlab.lessons.topics.updates.checks import Reference
from ctrlab.lessons.topics.updates.clients import Clients, wait_until_served
from ctrlab.lessons.topics.updates.update_files import changed_rows

from ctrlab.errors import CtrlabError
from ctrlab.server.exported import json_request
from ctrlab.serving.processor import Reply
from ctrlab.serving.weights import Moment, write_update
from ctrlab.training.changes import Changed


class Served:
    """Stands for a processor: one more update per answer, and a refusal at the end."""

    def __init__(self, answers=10**9, info=None):
        self.left, self.said, self.lock = answers, info or {}, threading.Lock()

    def process(self, request, format):
        with self.lock:
            self.left -= 1
            if self.left < 0:
                raise CtrlabError("no more")
            return Reply(b'{"outputs": [[0.5]]}', 3, 7, -1)

    def info(self):
        return self.said


class Chart:
    def __init__(self):
        self.points = []

    def add(self, series, x, y):
        self.points.append((series, x, y))


def test_clients_note_each_answer_and_draw_it_once():
    times, steps = Chart(), Chart()
    with Clients(Served(), b"", threads=2, pause=0) as clients:
        while len(clients.answers) < 100:
            pass
        clients.draw(times, steps, {(3, 7): 70})
    drawn = len(times.points)
    clients.draw(times, steps, {})
    assert drawn >= 2 * (100 // serving_clients.TOGETHER) and len(times.points) <= 2 * (
        len(clients.answers) // serving_clients.TOGETHER
    )
    assert len(steps.points) == drawn // 2 and {y for _, _, y in steps.points} == {70}
    assert {answer.moment for answer in clients.answers} == {(3, 7)} and clients.answers[0].probabilities == [[0.5]]


def test_a_refusal_is_raised_when_the_block_ends():
    with pytest.raises(CtrlabError, match="no more"), Clients(Served(5), b"", threads=1, pause=0) as clients:
        clients._threads[0].join()
    assert len(clients.answers) == 5


@pytest.mark.parametrize("stopped, refused, why", [("a gap", {}, "a gap"), ("", {"4": "half"}, "half"), ("", {}, "nothing new")])
def test_a_server_that_does_not_follow_says_why(monkeypatch, stopped, refused, why):
    monkeypatch.setattr(serving_clients, "WAITS_SECONDS", 0.01)
    served = Served(info={"step": 3, "stopped": stopped, "refused": refused})
    assert wait_until_served(served, 3)["step"] == 3
    with pytest.raises(CtrlabError, match=f"step 3 of 4: {why}"):
        wait_until_served(served, 4)


def test_the_rows_of_an_update_are_read_from_its_file(tmp_path):
    rows = [Changed(np.array(ids, np.int64), np.zeros([len(ids), 2], np.float32), 0, 1) for ids in ([3, 5], [], [1])]
    write_update(tmp_path / "1", "bundle", Moment(1, 1), rows, [], [np.zeros(9, np.float32)], ["float32"] * 3)
    found = changed_rows(tmp_path / "1")
    assert {table: ids.tolist() for table, ids in found.items()} == {0: [3, 5], 2: [1]}


def test_without_a_gate_moments_are_mixed_and_behind_a_lock_not():
    assert two_moments.serve(two_moments.OneLock(), requests=50).mixed == 0
    found = two_moments.serve(two_moments.NoGate(), requests=300)
    assert found.answers == 1200 and found.updates and 0 < found.mixed < 1200


def test_the_lessons_log_is_the_publishers():
    """A key that changes while its file is written comes again."""
    log = Reference()
    log.note([7, 9])
    assert log.cut() == (1, [7, 9])
    log.note([7])
    log.confirm(1)
    assert log.cut() == (2, [7])


@pytest.mark.timeout(300)
def test_a_model_that_a_processor_follows(work):
    from ctrlab.lessons.topics.updates.followed import Followed

    from ctrlab.profiles import PROFILES

    din = Followed("din", PROFILES["tiny"])
    folder = din.folder
    for moment in ((1, 1), (1, 2), (2, 0)):
        list(din.learn())
        info = din.publish(full=moment[1] == 0)
        assert (info["version"], info["update"]) == moment and din.steps[moment] == info["step"]
        with Clients(din.processor, json_request(din.some, din.model), threads=1) as clients:
            while not clients.answers:
                pass
        np.testing.assert_allclose(clients.answers[0].probabilities, din.right[moment], atol=1e-6)
    list(din.learn())
    din.publish_to_no_disk()
    assert list(din.updates.iterdir()) == []
    list(din.learn())
    assert din.publish()["update"] == 1
    gap, whole = din.publish_with_a_gap(lambda: list(din.learn()))
    assert gap["update"] == 0 and "is missing" in gap["stopped"] and (whole["update"], whole["stopped"]) == (3, "")
    din.close()
    assert not folder.exists()
    with pytest.raises(CtrlabError):
        din.processor.info()
