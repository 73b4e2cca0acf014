"""A crowd that asks a served model: what is counted, and what is drawn."""

import statistics
import time
from concurrent.futures import Future
from types import SimpleNamespace

from ctrlab.lessons.topics.batching import crowd

from ctrlab.server.models import Overloaded
from ctrlab.serving.processor import Reply

CALM_SECONDS = 0.05


class Server:
    """In the models' place: it answers at once, and after a calm beginning refuses each third."""

    def __init__(self):
        self.served, self.asked, self.begun = {"ctr": None}, 0, time.monotonic()

    def submit(self, model, request, format):
        self.asked += 1
        if self.asked % 3 == 0 and time.monotonic() > self.begun + CALM_SECONDS + 0.01:
            raise Overloaded("too many")
        time.sleep(0.001)
        answer = Future()
        answer.set_result(Reply(request, 1, 0, -1))
        return answer


class Chart:
    def __init__(self):
        self.points = []

    def add(self, name, x, y):
        self.points.append((name, x, y))


def test_each_answer_is_drawn_once_and_each_refusal_counted(monkeypatch):
    monkeypatch.setattr(crowd, "ENOUGH_SECONDS", CALM_SECONDS)
    server, chart = Server(), Chart()
    found = crowd.overload(server, b"", times=2, seconds=0.5, chart=chart, name="a name")
    assert len(chart.points) == len(found.took) > 20 and {name for name, *_ in chart.points} == {"a name"}
    assert [y for *_, y in chart.points] == [1e3 * took for took in found.took]
    assert len(found.took) / 4 < found.refused <= len(found.took) / 2 + 1
    assert found.median == statistics.median(found.took)
    assert 0 <= found.slowest_refusal < 5 and found.within(0) == 0 and found.within(10) == len(found.took)


def test_clients_ask_as_often_together_as_they_are_told():
    asked = []
    processor = SimpleNamespace(process=lambda request, format: asked.append((request, format)))
    crowd.ask(processor, b"body", clients=2, requests=6)
    assert asked == [(b"body", "json")] * 6
