"""Who waits for answers: how many may, and until when."""

import threading
import time
from concurrent.futures import Future

import pytest

from ctrlab.errors import CtrlabError
from ctrlab.server import models as server
from ctrlab.server import served
from ctrlab.serving.processor import Code, Refused, Reply


class Slow:
    """Stands in for a processor; it answers when the test allows it."""

    def __init__(self, folder, name, **_):
        self.goes, self.begun = threading.Event(), 0

    def process(self, request, format, header):
        self.begun += 1
        assert self.goes.wait(60)
        if request == b"odd":
            raise Refused(Code.INVALID, "odd")
        return Reply(request, 1, 0, -1)

    def info(self):
        numbers = ("version", "loads", "gone", "update", "step", "read_micros", "longest_pause_micros", "stopped")
        return dict.fromkeys(numbers, 0) | {"refused": {}, "ignored": []}

    def close(self):
        pass


@pytest.fixture
def slow(monkeypatch, tmp_path):
    """(Models with one thread and two that may wait, their processor)."""
    monkeypatch.setattr(served, "Processor", Slow)
    monkeypatch.setattr(server, "folders_in", lambda folder: {"ctr": folder})
    models = server.Models(tmp_path, threads=1, most_waiting=2)
    yield models, models.served["ctr"].newest
    models.served["ctr"].newest.goes.set()
    models.close()


def test_more_than_may_wait_are_refused_at_once(slow):
    models, processor = slow
    inside = [models.submit("ctr", b"a", "json") for _ in range(3)]
    for _ in range(5):
        began = time.monotonic()
        with pytest.raises(server.Overloaded, match="3 requests are worked on or wait"):
            models.submit("ctr", b"a", "json")
        assert time.monotonic() - began < 10
    assert models.inside == 3
    processor.goes.set()
    assert [future.result(60).data for future in inside] == [b"a"] * 3
    while models.inside:
        pass
    assert models.submit("ctr", b"b", "json").result(60).data == b"b"
    assert b'ctrlab_refused_requests_total{model="ctr",why="overloaded"} 5.0' in models.metrics.page()


def test_a_request_that_is_too_late_is_not_begun(slow):
    models, processor = slow
    first = models.submit("ctr", b"a", "json")
    late = models.submit("ctr", b"late", "json", deadline=time.monotonic() - 1)
    processor.goes.set()
    assert first.result(60).data == b"a"
    with pytest.raises(server.Late):
        late.result(60)
    assert processor.begun == 1


def test_a_refused_request_leaves(slow):
    models, processor = slow
    processor.goes.set()
    for _ in range(10):
        refused: Future = models.submit("ctr", b"odd", "json")
        with pytest.raises(Refused):
            refused.result(60)
    with pytest.raises(Refused, match="received a request for other"):
        models.submit("other", b"a", "json")
    with pytest.raises(Refused, match=r"Version 1 of ctr .*request for 2"):
        models.submit("ctr", b"a", "json", version=2).result(60)
    while models.inside:
        pass


@pytest.mark.parametrize("odd", [{"threads": -1}, {"most_waiting": -1}])
def test_odd_numbers_are_refused(tmp_path, odd):
    with pytest.raises(CtrlabError, match="at least 1 thread"):
        server.Models(tmp_path, **odd)


def test_by_model_the_requests_of_one_never_wait_for_another(monkeypatch, tmp_path):
    monkeypatch.setattr(served, "Processor", Slow)
    monkeypatch.setattr(server, "folders_in", lambda folder: {"heavy": folder, "light": folder})
    models = server.Models(tmp_path, threads=1, most_waiting=1, group={"policy": "by_model"})
    heavy, light = (models.served[name].newest for name in ("heavy", "light"))
    light.goes.set()
    inside = [models.submit("heavy", b"a", "json") for _ in range(2)]
    with pytest.raises(server.Overloaded, match="2 requests"):
        models.submit("heavy", b"a", "json")
    assert [models.submit("light", b"b", "json").result(60).data for _ in range(3)] == [b"b"] * 3
    assert models.inside == 2 and not any(future.done() for future in inside)
    heavy.goes.set()
    assert [future.result(60).data for future in inside] == [b"a"] * 2
    models.close()
